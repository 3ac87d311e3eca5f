"""Checks that a session opens only what models.yaml declares, or says in one sentence why not."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnx
import onnxruntime
import pytest

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.model_tokenizer import Row
from services.inference.profiles import MODELS_FILE, ModelError, load_cross_encoder, load_encoder
from services.inference.session import Session
from tests.support.models import (
    CROSS_ENCODER,
    ENCODER,
    constant,
    fetched,
    ids_as_hidden,
    node,
    sum_of_ids,
    tiny_cross_encoder,
    tiny_encoder,
)
from tests.support.processes import ROOT


def declared(profile, folder):
    """Returns the profile with the sha256 of its current files."""
    return profile.model_copy(update={"files": {name: file_sha256(folder / name) for name in profile.files}})


def test_rows_are_padded_and_the_padding_is_masked(tmp_path):
    session = Session(tiny_cross_encoder(tmp_path, sum_of_ids("logits")), tmp_path)
    rows = [Row([1, 2, 3], [0, 0, 0]), Row([4], [0])]
    assert session.run(rows).tolist() == [[6.0], [4.0]]


def test_concurrent_calls_give_the_results_of_single_ones():
    folder = fetched(ENCODER)
    session = Session(load_encoder(MODELS_FILE, ENCODER), folder)
    inputs = [[Row(list(range(1000, 1000 + length)), [0] * length)] for length in range(3, 27, 3)]
    alone = [session.run(rows) for rows in inputs]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(session.run, inputs * 3))
    for got, expected in zip(together, alone * 3, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("content", [b"", b"not a graph at all", None])
def test_a_file_that_is_no_graph_is_refused_by_its_path(tmp_path, content):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    graph = tmp_path / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:100] if content is None else content)
    with pytest.raises(ModelError, match=r"model\.onnx"):
        Session(declared(profile, tmp_path), tmp_path)


def test_a_truncated_file_is_refused_before_it_is_opened(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    graph = tmp_path / "model.onnx"
    graph.write_bytes(graph.read_bytes()[:100])
    with pytest.raises(ModelError, match=r"model\.onnx .*`make models MODELS=\S+`"):
        Session(profile, tmp_path)


def test_a_missing_file_is_named(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    (tmp_path / "config.json").unlink()
    with pytest.raises(ModelError, match=r"config\.json"):
        Session(profile, tmp_path)


def test_a_graph_of_another_family_is_refused_by_its_inputs(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    model = onnx.load(tmp_path / "model.onnx")
    model.graph.input.extend([onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.FLOAT, [1])])
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(ModelError, match="pixels"):
        Session(declared(profile, tmp_path), tmp_path)


def test_an_encoder_of_another_dimension_is_refused(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden(), dimension=384)
    with pytest.raises(ModelError, match=r"\[2, 3, 1\].*\[batch, tokens, 384\]"):
        Session(profile, tmp_path)


def test_an_encoder_is_no_cross_encoder(tmp_path):
    tiny_encoder(tmp_path, ids_as_hidden())
    profile = declared(load_cross_encoder(MODELS_FILE, CROSS_ENCODER), tmp_path)
    prepare(profile, tmp_path)
    with pytest.raises(ModelError, match=r"models\.yaml"):
        Session(profile, tmp_path)


def test_three_logits_are_refused(tmp_path):
    nodes = [*sum_of_ids("one"), node("Concat", ["one", "one", "one"], "logits", axis=1)]
    with pytest.raises(ModelError, match=r"\[2, 3\].*\[batch, 1\]"):
        Session(tiny_cross_encoder(tmp_path, nodes, labels=3), tmp_path)


def test_a_batch_that_the_graph_cannot_take_is_an_error_with_its_shape(tmp_path):
    # Four tokens are split into pairs of two; three cannot be.
    nodes = [
        constant("pairs", np.array([-1, 2], np.int64)),
        node("Reshape", ["input_ids", "pairs"], "split"),
        constant("back", np.array([0, 0, 1], np.int64)),
        node("Reshape", ["input_ids", "back"], "wide"),
        constant("none", np.array([0], np.int64)),
        node("ReduceSum", ["split"], "sum", keepdims=0),
        node("Mul", ["sum", "none"], "nought"),
        node("Add", ["wide", "nought"], "shifted"),
        node("Cast", ["shifted"], "last_hidden_state", to=1),
    ]
    session = Session(tiny_encoder(tmp_path, nodes), tmp_path)
    with pytest.raises(ModelError, match=r"model\.onnx .*\(1, 3\)"):
        session.run([Row([1, 2, 3], [0, 0, 0])])
    assert session.run([Row([1, 2], [0, 0])]).tolist() == [[[1.0], [2.0]]]


def test_a_provider_that_this_runtime_lacks_is_refused_and_not_replaced(tmp_path):
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    with pytest.raises(ModelError, match=r"CUDAExecutionProvider.*`gpu`"):
        Session(profile, tmp_path, "cuda")


def test_rows_share_a_call_only_if_their_results_are_independent(tmp_path):
    profile = tiny_cross_encoder(tmp_path, sum_of_ids("logits"))
    dynamic = profile.model_copy(update={"precision": "int8-dynamic"})
    assert Session(profile, tmp_path).batchable
    assert not Session(dynamic, tmp_path).batchable


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"model_type": "bert"}, 0),
        ({"model_type": "xlm-roberta"}, 1),
        ({"model_type": "deberta-v2", "pad_token_id": 0}, 0),
        ({"model_type": "bert", "pad_token_id": 7}, 7),
    ],
)
def test_rows_are_padded_with_the_padding_id_of_their_model(tmp_path, config, expected):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    (tmp_path / "config.json").write_text(json.dumps(config))
    session = Session(declared(profile, tmp_path), tmp_path)
    assert session.run([Row([5, 6], [0, 0]), Row([9], [0])]).tolist() == [[[5.0], [6.0]], [[9.0], [float(expected)]]]


@pytest.mark.parametrize("content", ["[]", "{", '{"pad_token_id": "none"}', '{"pad_token_id": -1}'])
def test_an_invalid_config_is_refused_with_its_path(tmp_path, content):
    profile = tiny_encoder(tmp_path, ids_as_hidden())
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json"):
        Session(declared(profile, tmp_path), tmp_path)


@pytest.mark.parametrize("package", ["services.inference.session", "workshop.training.quantise"])
def test_onnx_runtime_keeps_no_identifier_of_the_machine_and_sends_nothing(tmp_path, package):
    opened = f"import {package}, onnxruntime; onnxruntime.InferenceSession({str(fetched(ENCODER) / 'model.onnx')!r})"
    subprocess.run([sys.executable, "-c", opened], cwd=ROOT, env={"HOME": str(tmp_path)}, check=True)
    assert list(tmp_path.iterdir()) == []
