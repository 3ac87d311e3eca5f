"""Checks checkpoints of DistilBERT: the built graph against a textbook, and the documented way to serve one's own."""

import re

import numpy as np
import onnxruntime
import pytest
import yaml

from deploy.models.bert_graph import build
from deploy.models.fetch import main
from services.inference.digests import file_sha256
from services.inference.open_model import Engine
from services.inference.profiles import ModelError, load_sparse_encoder
from services.inference.sparse_encoder import SparseTextEncoder
from tests.support.models import tiny_tokenizer
from tests.support.sparse_checkpoints import SPECIAL, distilbert_weights, write_distilbert
from tests.support.textbook_bert import heaviest, textbook_bert, textbook_sparta, textbook_splade

ROWS = ([3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [2, 7, 1], [19])


def answers(graph):
    """Runs the padded rows; a DistilBERT's graph has no token types."""
    feed = {name: np.zeros((3, 12), dtype=np.int64) for name in ("input_ids", "attention_mask")}
    for place, ids in enumerate(ROWS):
        feed["input_ids"][place, : len(ids)] = ids
        feed["attention_mask"][place, : len(ids)] = 1
    return onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"]).run(None, feed)[0]


def test_token_vectors_equal_a_textbook(tmp_path):
    files = write_distilbert(tmp_path, "DistilBertModel")
    build(*files)
    hidden = answers(files[2])
    for place, ids in enumerate(ROWS):
        wanted = textbook_bert(distilbert_weights(), ids, [0] * len(ids))
        np.testing.assert_allclose(hidden[place, : len(ids)], wanted, rtol=0, atol=2e-5)


@pytest.mark.parametrize("head", ["masked-lm", "input-embeddings"])
def test_vocabulary_maxima_equal_a_textbook(tmp_path, head):
    files = write_distilbert(tmp_path, "DistilBertForMaskedLM" if head == "masked-lm" else "DistilBertModel")
    build(*files, head)
    textbook = textbook_splade if head == "masked-lm" else lambda weights, ids: textbook_sparta(weights, ids, 0.0)
    for ids, maxima in zip(ROWS, answers(files[2]), strict=True):
        ours = np.log1p(np.maximum(maxima, 0))
        np.testing.assert_allclose(ours, textbook(distilbert_weights(), ids), rtol=0, atol=2e-5)


def test_a_config_without_the_sizes_of_a_distilbert_is_refused(tmp_path):
    config, weights, model = write_distilbert(tmp_path)
    config.write_text('{"model_type": "distilbert", "architectures": ["DistilBertForMaskedLM"], "activation": "gelu"}')
    with pytest.raises(ModelError, match="n_layers"):
        build(config, weights, model, "masked-lm")


@pytest.mark.parametrize("saturation", ["log", "log-log"])
async def test_a_checkpoint_in_a_folder_is_built_pinned_and_served(tmp_path, capsys, saturation):
    origin, models = tmp_path / "downloaded", tmp_path / "models.yaml"
    origin.mkdir()
    _, checkpoint, _ = write_distilbert(origin)
    tiny_tokenizer(origin / "tokenizer.json")
    entry = {
        "name": "mine",
        "kind": "sparse-encoder",
        "default": False,
        "method": "splade",
        "saturation": saturation,
        "vocabulary": 20,
        "max_tokens": 12,
        "precision": "fp32",
        "trained_on": "its card does not say",
        "files": {name: file_sha256(origin / name) for name in ("tokenizer.json", "config.json")}
        | {"model.onnx": "0" * 64},
        "checkpoint_sha256": file_sha256(checkpoint),
        "sources": [{"kind": "directory", "path": str(origin)}],
    }
    command = ["mine", "--directory", str(tmp_path / "served"), "--models", str(models)]
    models.write_text(yaml.safe_dump({"models": [entry]}))
    assert main(command) == 1
    built = re.search(r"model\.onnx has the sha256 ([0-9a-f]{64})", capsys.readouterr().out)
    assert built is not None
    entry["files"]["model.onnx"] = built[1]
    models.write_text(yaml.safe_dump({"models": [entry]}))
    assert main(command) == 0
    encoder = SparseTextEncoder(load_sparse_encoder(models, "mine"), tmp_path / "served" / "mine", Engine(threads=1))
    (found,) = await encoder.encode_passages(["w3 w1"])
    await encoder.close()
    weights = textbook_splade(distilbert_weights(), [2, 13, 11, 3])
    wanted = heaviest(weights if saturation == "log" else np.log1p(weights), 20, {*SPECIAL} - {0, 1})
    assert dict(zip(found.terms.tolist(), found.weights.tolist(), strict=True)) == pytest.approx(wanted, abs=2e-5)
    assert ("saturation" in encoder.stamp) == (saturation == "log-log")
