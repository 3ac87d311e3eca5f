"""Checks the built graph: embeddings of the original model, numbers of a textbook BERT, equal bytes every time."""

import hashlib
import json

import numpy as np
import onnxruntime
import pytest

from deploy.models.bert_graph import build
from services.inference.open_model import Engine
from services.inference.profiles import MODELS_FILE, ModelError, load_encoder
from services.inference.text_encoder import TextEncoder
from tests.support.models import CONFIG, ENCODER, checkpoint, fetched, random_weights
from tests.support.processes import ROOT
from tests.support.sparse_checkpoints import sparse_weights, write_masked_lm
from tests.support.textbook_bert import textbook_bert, textbook_sparta, textbook_splade

GOLDEN = ROOT / "tests" / "golden" / "minilm_embeddings.json"


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
        ({"architectures": ["RobertaModel"]}, "only BertModel or"),
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
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        build(*files)


@pytest.mark.parametrize("head", ["masked-lm", "input-embeddings"])
def test_vocabulary_maxima_of_padded_rows_equal_a_textbook(tmp_path, head):
    config, weights, graph = write_masked_lm(tmp_path)
    if head == "input-embeddings":
        config.write_text(json.dumps(CONFIG))
    build(config, weights, graph, head)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    rows = [[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [2, 7, 1], [19]]
    feed = {name: np.zeros((3, 12), dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    for place, ids in enumerate(rows):
        feed["input_ids"][place, : len(ids)] = ids
        feed["attention_mask"][place, : len(ids)] = 1
    (maxima,) = session.run(["vocabulary_maxima"], feed)
    assert maxima.shape == (3, 20)
    textbook = textbook_splade if head == "masked-lm" else lambda given, ids: textbook_sparta(given, ids, 0.0)
    for place, ids in enumerate(rows):
        ours = np.log1p(np.maximum(maxima[place], 0))
        np.testing.assert_allclose(ours, textbook(sparse_weights(), ids), rtol=0, atol=2e-5)


def test_a_vocabulary_of_several_blocks_equals_one_product(tmp_path, monkeypatch):
    build(*write_masked_lm(tmp_path), "masked-lm")
    whole = (tmp_path / "model.onnx").rename(tmp_path / "whole.onnx")
    monkeypatch.setattr("deploy.models.bert_graph.BLOCK", 6)
    build(*write_masked_lm(tmp_path), "masked-lm")
    feed = {name: np.ones((2, 5), dtype=np.int64) for name in ("input_ids", "attention_mask", "token_type_ids")}
    feed["input_ids"] = np.arange(10).reshape(2, 5)
    one, other = [
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, feed)[0]
        for path in (whole, tmp_path / "model.onnx")
    ]
    np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_a_head_that_the_checkpoint_lacks_is_refused(tmp_path):
    with pytest.raises(ModelError, match="only BertForMaskedLM"):
        build(*checkpoint(tmp_path), "masked-lm")
    with pytest.raises(ModelError, match="tied"):
        build(*write_masked_lm(tmp_path, tie_word_embeddings=False), "masked-lm")
