"""Checks the built graph: embeddings of the original model, numbers of a textbook BERT, equal bytes every time."""

import hashlib
import json

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray

from deploy.models.bert_graph import build
from services.inference.open_model import Engine
from services.inference.profiles import MODELS_FILE, ModelError, load_encoder
from services.inference.text_encoder import TextEncoder
from tests.support.models import CONFIG, ENCODER, checkpoint, fetched, random_weights
from tests.support.processes import ROOT

GOLDEN = ROOT / "tests" / "golden" / "minilm_embeddings.json"


def textbook_bert(weights: dict[str, NDArray[np.float32]], ids: list[int], types: list[int]) -> NDArray[np.float64]:
    """Computes one unpadded row with a BERT written from the paper, in fp64: [tokens, 8]."""
    from math import erf

    w = {name: values.astype(np.float64) for name, values in weights.items()}

    def linear(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name: str, x: NDArray[np.float64]) -> NDArray[np.float64]:
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    x = norm("embeddings.LayerNorm", x + w["embeddings.position_embeddings.weight"][: len(ids)])
    for layer in ("encoder.layer.0", "encoder.layer.1"):
        q, k, v = (linear(f"{layer}.attention.self.{part}", x) for part in ("query", "key", "value"))
        heads = []
        for at in (slice(0, 4), slice(4, 8)):
            scores = np.exp(q[:, at] @ k[:, at].T / 2.0)
            heads.append(scores / scores.sum(-1, keepdims=True) @ v[:, at])
        attended = linear(f"{layer}.attention.output.dense", np.concatenate(heads, -1))
        x = norm(f"{layer}.attention.output.LayerNorm", attended + x)
        wide = linear(f"{layer}.intermediate.dense", x)
        gelu = wide * np.vectorize(lambda value: (1 + erf(value / 2**0.5)) / 2)(wide)
        x = norm(f"{layer}.output.LayerNorm", linear(f"{layer}.output.dense", gelu) + x)
    return x


async def test_the_graph_gives_the_embeddings_of_the_original():
    golden = json.loads(GOLDEN.read_text())
    encoder = TextEncoder(load_encoder(MODELS_FILE, ENCODER), fetched(ENCODER), Engine(threads=1))
    try:
        ours = await encoder.encode_passages([item["text"] for item in golden["items"]])
    finally:
        await encoder.close()
    theirs = np.array([item["embedding"] for item in golden["items"]])
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() >= 0.99999
    assert np.abs(ours - theirs).max() < 1e-6


def test_the_golden_was_made_from_the_checkpoint_that_models_yaml_pins():
    assert json.loads(GOLDEN.read_text())["weights_sha256"] == load_encoder(MODELS_FILE, ENCODER).checkpoint_sha256


def test_padded_rows_equal_a_textbook_bert_on_each_row_alone(tmp_path):
    build(*checkpoint(tmp_path))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    rows = [([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [0] * 5 + [1] * 7), ([2, 7, 1], [0, 0, 1]), ([19], [1])]
    feed = {name: np.zeros((3, 12), dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    for place, (ids, types) in enumerate(rows):
        feed["input_ids"][place, : len(ids)] = ids
        feed["token_type_ids"][place, : len(ids)] = types
        feed["attention_mask"][place, : len(ids)] = 1
    (hidden,) = session.run(["last_hidden_state"], feed)
    for place, (ids, types) in enumerate(rows):
        np.testing.assert_allclose(
            hidden[place, : len(ids)], textbook_bert(random_weights(), ids, types), rtol=0, atol=2e-5
        )


def test_the_same_weights_give_the_same_bytes(tmp_path):
    build(*checkpoint(tmp_path))
    made = hashlib.sha256((tmp_path / "model.onnx").read_bytes()).hexdigest()
    # Recorded with onnx 1.23: a version that changes it would change the pinned sha256 of every built model.
    assert made == "1966f2a6e4769837a8c5e0e4d8ee74c36e4e7d74f0156077804bbcbb8c2521d6"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"hidden_act": "relu"}, "only gelu"),
        ({"position_embedding_type": "relative_key"}, "only gelu and absolute"),
        ({"architectures": ["RobertaModel"]}, "only the encoder BertModel"),
        ({"num_hidden_layers": 3}, "lacks the tensor 'encoder.layer.2.attention.self.query.weight'"),
        ({"hidden_size": "wide"}, "is not the config.json of a BERT"),
    ],
)
def test_an_unsupported_checkpoint_is_refused_with_the_reason(tmp_path, change, complaint):
    files = checkpoint(tmp_path, CONFIG | change)
    with pytest.raises(ModelError, match=complaint):
        build(*files)


def test_a_truncated_checkpoint_is_refused_by_its_path(tmp_path):
    files = checkpoint(tmp_path)
    files[1].write_bytes(files[1].read_bytes()[:500])
    with pytest.raises(ModelError, match=r"model\.safetensors is not a readable safetensors file"):
        build(*files)
