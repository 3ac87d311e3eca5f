"""Checks the fields by which models.yaml describes dense models, each on a graph made for it, and what contradicts it.

The hidden state of a token is its id and the id's negative: [batch, tokens, 2]. `w1` to `w99` have the ids 11 to 109,
[CLS] has 2, and [SEP] has 3.
"""

import asyncio
import json
import shutil

import numpy as np
import pytest

from services.inference.digests import file_sha256
from services.inference.open_model import Engine
from services.inference.profiles import CONFIG, MODELS_FILE, ModelError, load_encoder
from services.inference.text_encoder import TextEncoder
from tests.support.models import constant, ids_as_hidden, node, sum_of_ids, tiny_encoder


def two_components():
    nodes = ids_as_hidden()
    nodes[-1].output[0] = "id"
    return [*nodes, node("Neg", ["id"], "negative"), node("Concat", ["id", "negative"], "last_hidden_state", axis=2)]


def pooled(factor=1.0):
    """Nodes that give a row the sum of its ids times `factor`: [batch, 1]."""
    return [*sum_of_ids("sum"), constant("factor", np.float32(factor)), node("Mul", ["sum", "factor"], "pooled")]


@pytest.fixture
def encoder():
    """Opens encoders on one thread, and closes them after the test."""
    opened = []

    def open_encoder(profile, folder):
        opened.append(TextEncoder(profile, folder, Engine(threads=1)))
        return opened[-1]

    yield open_encoder
    for one in opened:
        asyncio.run(one.close())


@pytest.mark.parametrize(
    ("pooling", "expected"), [("mean", (2 + 19 + 11 + 3) / 4), ("cls", 2.0), ("last", 3.0)]
)  # fmt: skip
async def test_a_row_is_pooled_without_its_padding(tmp_path, encoder, pooling, expected):
    opened = encoder(tiny_encoder(tmp_path, two_components(), dimension=2, pooling=pooling), tmp_path)
    vectors = await opened.encode_passages(["w9 w1", "w1 w2 w3 w4 w5 w6"])
    assert vectors[0].tolist() == [expected, -expected]
    assert opened.stamp["pooling"] == pooling


async def test_a_graph_that_pools_and_projects_gives_its_vector_as_it_is(tmp_path, encoder):
    opened = encoder(tiny_encoder(tmp_path, pooled(0.5), output="pooled", pooling="graph"), tmp_path)
    assert (await opened.encode_passages(["w9", "w1 w2"])).tolist() == [[12.0], [14.0]]
    assert (await opened.encode_query("w9")).tolist() == [12.0]


@pytest.mark.parametrize(("normalise", "expected"), [(False, [11.0, -11.0]), (True, [0.5**0.5, -(0.5**0.5)])])
async def test_normalised_vectors_are_compared_by_cosine_and_others_by_dot_product(
    tmp_path, encoder, normalise, expected
):
    profile = tiny_encoder(tmp_path, two_components(), dimension=2, normalise=normalise, max_tokens=3)
    # The mean of [CLS]=2, w18=28 and [SEP]=3.
    vector = await encoder(profile, tmp_path).encode_query("w18")
    assert vector.tolist() == pytest.approx(expected)


async def test_the_first_components_of_a_wider_vector_are_kept_and_then_normalised(tmp_path, encoder):
    profile = tiny_encoder(tmp_path, two_components(), dimension=1, width=2, normalise=True)
    opened = encoder(profile, tmp_path)
    assert (await opened.encode_passages(["w9", "w1 w2"])).tolist() == [[1.0], [1.0]]
    assert opened.representation.dimension == 1


async def test_queries_and_passages_have_a_graph_each(tmp_path, encoder):
    tiny_encoder(tmp_path / "queries", pooled(-1.0), output="pooled")
    passages = tiny_encoder(tmp_path, pooled(), output="pooled", pooling="graph")
    shutil.copyfile(tmp_path / "queries" / "model.onnx", tmp_path / "queries.onnx")
    sha256 = file_sha256(tmp_path / "queries.onnx")
    towers = passages.model_copy(
        update={"query_graph": "queries.onnx", "files": {**passages.files, "queries.onnx": sha256}}
    )
    opened = encoder(towers, tmp_path)
    assert (await opened.encode_query("w9")).tolist() == [-24.0]
    assert (await opened.encode_passages(["w9"])).tolist() == [[24.0]]
    assert opened.stamp["query_weights_sha256"] == sha256
    assert "query_weights_sha256" not in encoder(passages, tmp_path).stamp


async def test_an_instruction_counts_towards_the_tokens_that_are_read(tmp_path, encoder):
    profile = tiny_encoder(tmp_path, ids_as_hidden(), pooling="last", query_prefix="w1 w2: ", max_tokens=6)
    opened = encoder(profile, tmp_path)
    assert await opened.lengths(["w9 w9 w9"], "query") == (8,)
    assert (await opened.encode_query("w9 w9 w9 w8")).tolist() == [3.0]


@pytest.mark.parametrize(
    ("output", "changes", "complaint"),
    [
        ("pooled", {}, r"\[2, 1\], and \[batch, tokens, 1\] \(pooling: mean\)"),
        ("last_hidden_state", {"pooling": "graph"}, r"\[2, 3, 2\], and \[batch, 1\] \(pooling: graph\)"),
        ("last_hidden_state", {"dimension": 384}, r"\[2, 3, 2\], and \[batch, tokens, 384\] \(pooling: mean\)"),
        ("last_hidden_state", {"dimension": 64, "width": 128}, r"\[2, 3, 2\], and \[batch, tokens, 128\]"),
        ("last_hidden_state", {"dimension": 2, "max_tokens": 13}, r"reads at most 12 tokens .* max_tokens: 13"),
    ],
)
def test_a_profile_that_contradicts_its_graph_is_refused(tmp_path, output, changes, complaint):
    nodes = pooled() if output == "pooled" else two_components()
    profile = tiny_encoder(tmp_path, nodes, output=output, **changes)
    (tmp_path / CONFIG).write_text(json.dumps({"model_type": "bert", "max_position_embeddings": 12}))
    files = {name: file_sha256(tmp_path / name) for name in profile.files}
    limit = {} if "max_tokens" in changes else {"max_tokens": 12}
    with pytest.raises(ModelError, match=complaint):
        TextEncoder(profile.model_copy(update={"files": files, **limit}), tmp_path)


def test_the_positions_of_roberta_begin_behind_its_padding_id(tmp_path):
    profile = tiny_encoder(tmp_path, ids_as_hidden(), max_tokens=11)
    (tmp_path / CONFIG).write_text(json.dumps({"model_type": "xlm-roberta", "max_position_embeddings": 12}))
    files = {name: file_sha256(tmp_path / name) for name in profile.files}
    with pytest.raises(ModelError, match="reads at most 10 tokens"):
        TextEncoder(profile.model_copy(update={"files": files}), tmp_path)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"width": 1}, "width is for graphs that give more"),
        ({"query_graph": "queries.onnx"}, r"query_graph names a file beside model\.onnx, with its sha256"),
        ({"query_graph": "model.onnx"}, "query_graph names a file beside"),
        ({"pooling": "max"}, "'mean', 'cls', 'last' or 'graph'"),
    ],
)
def test_an_entry_that_contradicts_itself_is_refused(tmp_path, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        tiny_encoder(tmp_path, ids_as_hidden(), **changes)


def test_a_graph_that_pools_gets_one_row_a_call(tmp_path):
    assert not tiny_encoder(tmp_path, pooled(), output="pooled", pooling="graph").batchable


@pytest.mark.parametrize(
    ("name", "pooling", "prefixes"),
    [
        ("bge-small-en-v1.5", "cls", ("Represent this sentence for searching relevant passages: ", "")),
        ("e5-small-v2", "mean", ("query: ", "passage: ")),
    ],
)
def test_the_shipped_models_with_prefixes_are_as_their_authors_use_them(name, pooling, prefixes):
    profile = load_encoder(MODELS_FILE, name)
    assert (profile.pooling, profile.normalise, profile.max_tokens, profile.dimension) == (pooling, True, 512, 384)
    assert (profile.query_prefix, profile.passage_prefix) == prefixes
