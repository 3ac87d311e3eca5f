"""Static int8: near the graph that it is made of, and every score of its pair alone."""

import asyncio
import gzip
import json
import random
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper

from deploy.models.prepare import prepare
from services.inference.digests import file_sha256
from services.inference.model_tokenizer import ModelTokenizer, Row
from services.inference.open_model import Engine
from services.inference.pair_scorer import PairScorer
from services.inference.profiles import GRAPH, MODELS_FILE, TOKENIZER, load_cross_encoder, load_encoder
from services.inference.session import Session
from tests.support.models import CROSS_ENCODER, fetched
from workshop.training.corpus import LABELLED
from workshop.training.quantise import (
    calibration_rows,
    calibration_texts,
    to_int8_storage,
    to_static_int8,
    with_fp32_weights,
    with_scales_by_axis,
)
from workshop.training.weights import read_weights

pytestmark = pytest.mark.integration  # takes seconds

QUERY = "why does my chain slip"
TEXTS = [
    "worn cassette lets the chain skip under load",
    "a frayed cable makes shifting stiff; replace inner and housing together",
    "the bottom bracket creaks when its cups were fitted dry",
    "tubeless sealant dries out within half a year and must be topped up",
    "spokes",
    "disc brakes squeal after rain until the pads are bedded in again, which takes some twenty firm stops from speed",
    "the saddle post is stuck in the frame",
    "",
]
REBATCHINGS = 8


def rows(limit=64):
    tokens = ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, limit)
    ids = tokens.ids(TEXTS)
    return [tokens.pair(ids[place], ids[other]) for place in (0, 6) for other in range(len(ids))]


@pytest.fixture(scope="module")
def original():
    """Our own model, in fp32."""
    return with_fp32_weights(onnx.load(fetched(CROSS_ENCODER) / GRAPH))


@pytest.fixture(scope="module")
def exact():
    """The scores of the graph that is quantised here."""
    return Session(load_cross_encoder(MODELS_FILE, CROSS_ENCODER), fetched(CROSS_ENCODER)).run(rows())[:, 0]


@pytest.fixture(scope="module")
def folder(original, tmp_path_factory):
    """The folder of the quantised model."""
    path = tmp_path_factory.mktemp("int8")
    (path / GRAPH).write_bytes(to_static_int8(original, rows()).SerializeToString(deterministic=True))
    for name in (TOKENIZER, "config.json"):
        (path / name).write_bytes((fetched(CROSS_ENCODER) / name).read_bytes())
    return path


def declared(folder, **more):
    """The profile of the model in `folder`, which is prepared."""
    profile = load_cross_encoder(MODELS_FILE, CROSS_ENCODER)
    files = {name: file_sha256(folder / name) for name in profile.files}
    changes = {"files": files, "precision": "int8-static", "session_entries": {}, **more}
    profile = profile.model_copy(update=changes)
    prepare(profile, folder)
    return profile


@pytest.fixture(scope="module")
def quantised(folder):
    """The profile of the quantised model, which is prepared once."""
    return declared(folder)


@pytest.fixture(scope="module")
def scorer(folder, quantised):
    opened = PairScorer(quantised, folder, Engine(threads=2))
    yield opened
    asyncio.run(opened.close())


async def test_no_score_depends_on_what_else_is_asked_for(scorer):
    alone = {text: (await scorer.score(QUERY, [text]))[0] for text in TEXTS}
    draw = random.Random(5)
    for _ in range(REBATCHINGS):
        asked = draw.sample(TEXTS, draw.randint(2, len(TEXTS)))
        together = await scorer.score(QUERY, asked)
        assert np.abs(np.subtract(together, [alone[text] for text in asked])).max() <= 1e-6
        assert sorted(asked, key=alone.__getitem__) == [asked[place] for place in np.argsort(together, kind="stable")]


def test_scores_stay_near_those_of_the_graph_that_it_is_made_of(folder, quantised, exact):
    scores = Session(quantised, folder).run(rows())[:, 0]
    assert np.abs(scores - exact).mean() < 0.1 * exact.std()


def test_int8_storage_keeps_scores_and_every_weight_and_is_read_back(original, exact, tmp_path):
    model = to_int8_storage(original, rows())
    (tmp_path / GRAPH).write_bytes(model.SerializeToString())
    (tmp_path / "plain.onnx").write_bytes(original.SerializeToString())
    kept, plain = read_weights(tmp_path / GRAPH), read_weights(tmp_path / "plain.onnx")
    assert kept.keys() == plain.keys()
    for name, value in plain.items():
        assert np.abs(kept[name] - value).mean() <= np.abs(value).max() / 100, name
    large = [tensor for tensor in model.graph.initializer if np.prod(tensor.dims) > 100_000]
    assert {tensor.data_type for tensor in large} == {onnx.TensorProto.INT8}
    assert (tmp_path / GRAPH).stat().st_size < 25_000_000
    for name in (TOKENIZER, "config.json"):
        (tmp_path / name).write_bytes((fetched(CROSS_ENCODER) / name).read_bytes())
    served = {"precision": "int8-weights", "session_entries": {"session.disable_quant_qdq": "1"}}
    profile = declared(tmp_path, **served)
    scores = Session(profile, tmp_path).run(rows())[:, 0]
    assert np.abs(scores - exact).mean() < 0.03 * scores.std()


def test_the_folded_weights_are_the_fp32_ones(original, exact, tmp_path):
    (tmp_path / GRAPH).write_bytes(original.SerializeToString())
    for name in (TOKENIZER, "config.json"):
        (tmp_path / name).write_bytes((fetched(CROSS_ENCODER) / name).read_bytes())
    np.testing.assert_array_equal(Session(declared(tmp_path), tmp_path).run(rows())[:, 0], exact)


def test_every_product_with_a_weight_matrix_is_in_int8_and_the_file_is_small(folder):
    model = onnx.load(folder / GRAPH)
    weights = [tensor for tensor in model.graph.initializer if len(tensor.dims) == 2 and np.prod(tensor.dims) > 200_000]
    assert {tensor.data_type for tensor in weights} == {onnx.TensorProto.INT8}
    assert sum(node.op_type == "QuantizeLinear" for node in model.graph.node) == 6 * 4
    assert (folder / GRAPH).stat().st_size < 25_000_000


def test_the_same_rows_give_the_same_bytes(original, folder):
    again = to_static_int8(original, rows()).SerializeToString(deterministic=True)
    assert again == (folder / GRAPH).read_bytes()


def test_a_graph_of_an_older_opset_is_quantised_too(tmp_path):
    table, matrix = (np.random.default_rng(3).normal(size=size).astype(np.float32) for size in ((30, 8), (8, 8)))
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["x"]),
        helper.make_node("MatMul", ["x", "matrix"], ["y"]),
    ]
    ids = helper.make_tensor_value_info("input_ids", onnx.TensorProto.INT64, ["rows", "tokens"])
    out = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["rows", "tokens", 8])
    weights = [numpy_helper.from_array(table, "table"), numpy_helper.from_array(matrix, "matrix")]
    graph = helper.make_graph(nodes, "old", [ids], [out], weights)
    old = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6)
    model = to_static_int8(with_scales_by_axis(old), [Row([1, 3, 8], [0, 0, 0]), Row([7, 9], [0, 0])])
    onnx.checker.check_model(model, full_check=True)
    feed = {"input_ids": np.array([[3, 8, 1]])}
    (found,) = ort.InferenceSession(model.SerializeToString()).run(None, feed)
    assert np.abs(found - table[[3, 8, 1]] @ matrix).max() < 0.1
    assert with_scales_by_axis(model) is model


def test_calibration_draws_the_same_rows_from_the_same_seed_with_the_prefixes_of_their_side(tmp_path: Path):
    for file in LABELLED:
        with gzip.open(tmp_path / f"{file}.jsonl.gz", "wt") as out:
            for place in range(4):
                row = {"query": f"{file} {place}", "positive": f"passage {file} {place}", "negatives": []}
                out.write(json.dumps(row) + "\n")
    tokens = ModelTokenizer(fetched(CROSS_ENCODER) / TOKENIZER, 32)
    first, again, other = (calibration_rows(tmp_path, tokens, 10, seed) for seed in (1, 1, 2))
    assert (first, len(first)) == (again, 10)
    assert first != other
    texts = calibration_texts(tmp_path, tokens, 4, 1, load_encoder(MODELS_FILE, "e5-small-v2"))
    (query,), (passage,) = (tokens.ids([word]) for word in ("query:", "passage:"))
    assert [list(row.ids)[1:3] for row in texts] == [list(query)] * 2 + [list(passage)] * 2
