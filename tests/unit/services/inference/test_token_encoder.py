"""Checks token vectors against a BERT in NumPy: markers, projection, filling, punctuation, limits."""

import asyncio

import numpy as np
import pytest

from services.inference.open_model import Engine
from services.inference.profiles import ModelError
from services.inference.token_encoder import TokenEncoder
from services.storage.representation import MultiVector
from tests.support.models import random_weights
from tests.support.stamps import ENTRIES, expect_each_in_the_stamp
from tests.support.textbook_bert import textbook_bert
from tests.support.token_models import COLBERT, IDS, PLAIN, projection, small_token_encoder

PASSAGES = (
    "oil the chain, the brake.",
    "the bike",
    "",
    ". , .",
    "oil oil oil the the the chain chain chain brake bike",
)


def vectors(tokens, kept=None, attended=None, project=True):
    """Computes the vectors of a row in NumPy, fp64, of those places that are `kept`."""
    hidden = textbook_bert(random_weights(), [IDS[token] for token in tokens], [0] * len(tokens), attended)
    wanted = (hidden @ projection().T if project else hidden)[list(range(len(tokens)) if kept is None else kept)]
    return wanted / np.linalg.norm(wanted, axis=1, keepdims=True)


@pytest.fixture
def opened(tmp_path):
    models = []

    def open_model(use, changes=None, **limits):
        profile = small_token_encoder(tmp_path / "tiny", use).model_copy(update=changes)
        models.append(TokenEncoder(profile, tmp_path / "tiny", Engine(threads=1), **limits))
        return models[-1]

    yield open_model
    for model in models:
        asyncio.run(model.close())


async def test_a_query_has_its_marker_and_masks_to_which_no_token_attends(opened):
    encoder = opened(COLBERT)
    assert encoder.representation == MultiVector(4)
    query = await encoder.encode_query("oil the")
    row = ["[CLS]", "[Q]", "oil", "the", "[SEP]", "[MASK]", "[MASK]"]
    assert query.dtype == np.float32
    np.testing.assert_allclose(query, vectors(row, attended=5), atol=2e-5)
    long = await encoder.encode_query("oil the chain brake bike oil the chain")
    np.testing.assert_allclose(long, vectors(["[CLS]", "[Q]", "oil", "the", "chain", "brake", "[SEP]"]), atol=2e-5)


async def test_a_passage_has_its_marker_and_no_punctuation(opened):
    found = await opened(COLBERT).encode_passages(PASSAGES)
    first = ["[CLS]", "[D]", "oil", "the", "chain", ",", "the", "brake", ".", "[SEP]"]
    np.testing.assert_allclose(found[0], vectors(first, kept=[0, 1, 2, 3, 4, 6, 7, 9]), atol=2e-5)
    np.testing.assert_allclose(found[1], vectors(["[CLS]", "[D]", "the", "bike", "[SEP]"]), atol=2e-5)
    np.testing.assert_allclose(found[2], vectors(["[CLS]", "[D]", "[SEP]"]), atol=2e-5)
    np.testing.assert_allclose(found[3], vectors(["[CLS]", "[D]", ".", ",", ".", "[SEP]"], kept=[0, 1, 5]), atol=2e-5)
    assert len(found[4]) == 12
    assert all(one.base is None for one in found)


async def test_a_word_of_a_passage_has_the_mean_of_its_pieces_and_a_stop_word_none(opened):
    encoder = opened(COLBERT, {"pooling": "words"})
    (found,) = await encoder.encode_passages(["oil the chains, the bike"])
    row = ["[CLS]", "[D]", "oil", "the", "chain", "##s", ",", "the", "bike", "[SEP]"]
    first, marker, oil, chain, ending, bike, last = vectors(row, kept=[0, 1, 2, 4, 5, 8, 9])
    chains = (chain + ending) / np.linalg.norm(chain + ending)
    np.testing.assert_allclose(found, [first, marker, oil, chains, bike, last], atol=2e-5)
    (matches,) = await encoder.explain("the chains", ["oil the chains, the bike"], [found])
    assert {match.document for match in matches} <= {"[CLS]", "[D]", "oil", "chains", "bike", "[SEP]"}
    query = await encoder.encode_query("oil the chains")
    row = ["[CLS]", "[Q]", "oil", "the", "chain", "##s", "[SEP]"]
    np.testing.assert_allclose(query, vectors(row), atol=2e-5)


async def test_without_projection_marker_and_filling_every_token_of_a_query_is_a_vector(opened):
    encoder = opened(PLAIN, passage_tokens=4)
    query = await encoder.encode_query("oil, the chain.")
    row = ["[CLS]", "oil", ",", "the", "chain", ".", "[SEP]"]
    np.testing.assert_allclose(query, vectors(row, project=False), atol=2e-5)
    (short,) = await encoder.encode_passages(["oil , chain brake"])
    cut = ["[CLS]", "oil", ",", "[SEP]"]
    np.testing.assert_allclose(short, vectors(cut, kept=[0, 1, 3], project=False), atol=2e-5)
    assert await encoder.encode_passages([]) == []


async def test_a_vector_does_not_depend_on_the_texts_beside_it(opened):
    encoder = opened(COLBERT)
    together = await encoder.encode_passages(PASSAGES)
    for passage, vector in zip(PASSAGES, together, strict=True):
        np.testing.assert_allclose((await encoder.encode_passages([passage]))[0], vector, atol=1e-6)


def test_the_stamp_holds_everything_that_decides_a_vector(opened, tmp_path):
    plain, colbert = opened(PLAIN), opened(COLBERT)
    others = [opened(COLBERT, passage_tokens=9), opened(COLBERT, query_tokens=6)]
    stamps = [sorted(one.stamp.items()) for one in (plain, colbert, *others)]
    assert len({str(stamp) for stamp in stamps}) == len(stamps)
    deciding = {
        "name": "another",
        "max_tokens": 9,
        "precision": "int8-static",
        "session_entries": ENTRIES,
        "query_marker": "the",
        "passage_marker": "the",
        "query_tokens": 6,
        "fill_queries": False,
        "pooling": "words",
    }
    profile = small_token_encoder(tmp_path / "tiny", COLBERT)
    expect_each_in_the_stamp(
        profile,
        lambda one: opened(COLBERT, {name: getattr(one, name) for name in deciding}).stamp,
        deciding,
        elsewhere={"dimension", "files"},  # the graph and the tokenizer, which are checked
    )
    assert colbert.stamp["tokenizer_sha256"] == profile.files["tokenizer.json"]


def test_limits_above_the_models_and_unknown_markers_are_refused(opened, tmp_path):
    with pytest.raises(ModelError, match="reads 12 tokens of a text, not 13"):
        opened(PLAIN, passage_tokens=13)
    profile = small_token_encoder(tmp_path / "tiny", COLBERT).model_copy(update={"query_marker": "[unused0]"})
    with pytest.raises(ModelError, match=r"has no token \[unused0\]"):
        TokenEncoder(profile, tmp_path / "tiny", Engine(threads=1))


def test_a_graph_of_another_dimension_is_refused(tmp_path):
    profile = small_token_encoder(tmp_path / "tiny", COLBERT).model_copy(update={"dimension": 8})
    with pytest.raises(ModelError, match=r"the token-encoder that models\.yaml declares"):
        TokenEncoder(profile, tmp_path / "tiny", Engine(threads=1))
