"""Checks tables of IDF: what the command writes from a corpus, and what encoders make of them."""

import asyncio
import json
import math

import numpy as np
import pytest
import yaml

from services.inference.digests import file_sha256
from services.inference.open_model import Engine
from services.inference.profiles import ModelError
from services.inference.sparse_encoder import SparseTextEncoder
from services.inference.token_encoder import TokenEncoder
from services.storage.representation import SparseVector
from tests.support.sparse_checkpoints import sparse_checkpoint
from tests.support.token_models import COLBERT, IDS, PLAIN, small_token_encoder
from workshop.idf import main

CORPUS = [
    {"_id": "1", "title": "oil the chain", "text": "the bike"},
    {"_id": "2", "title": None, "text": "the chain, the chain", "metadata": {"price": 1}},
    {"_id": "3", "text": "oil"},
    {"_id": "4", "title": "", "text": ""},
]
# In how many of the four passages a token occurs.
OCCURRENCES = {"oil": 2, "the": 2, "chain": 2, "bike": 1, "brake": 0, ",": 1, ".": 0}
SPECIAL = {"[CLS]", "[SEP]", "[Q]", "[D]"}


@pytest.fixture
def written(tmp_path):
    """Writes the table of a corpus for the small ColBERT `tiny`; returns the exit status and the table's file."""

    def write(lines, model="tiny", out="idf.json"):
        profile = small_token_encoder(tmp_path / "tiny", COLBERT)
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"models": [profile.model_dump(mode="json")]}))
        corpus, file = tmp_path / "corpus.jsonl", tmp_path / out
        corpus.write_text("".join(f"{line}\n" for line in lines))
        places = ["--directory", str(tmp_path), "--models", str(tmp_path / "models.yaml")]
        return main([str(corpus), "--model", model, "--out", str(file), *places]), file

    return write


@pytest.fixture
def opened(tmp_path):
    models = []

    def open_model(use, idf=None):
        profile = small_token_encoder(tmp_path / "tiny", use)
        models.append(TokenEncoder(profile, tmp_path / "tiny", Engine(threads=1), idf=idf))
        return models[-1]

    yield open_model
    for model in models:
        asyncio.run(model.close())


def test_a_table_has_the_idf_of_every_token_of_the_vocabulary(written):
    status, file = written([*map(json.dumps, CORPUS), ""])
    table = json.loads(file.read_text())
    assert status == 0
    assert list(table) == list(IDS)
    for token, occurrences in OCCURRENCES.items():
        assert table[token] == pytest.approx(math.log(5 / (occurrences + 0.5)), abs=5e-5)
    assert {token for token in SPECIAL if table[token] != 1.0} == set()


@pytest.mark.parametrize(
    ("lines", "model", "expected"),
    [
        (['{"_id": "1", "text": "oil"}', '{"_id": "2", "text": 7}'], "tiny", "line 2 is not a document"),
        (["oil the chain"], "tiny", "line 1 is not a document"),
        ([], "tiny", "no documents"),
        (['{"_id": "1", "text": "oil"}'], "large", "lists no model large; it has tiny"),
    ],
)
def test_a_corpus_or_a_model_that_cannot_be_read_writes_no_table(written, capsys, lines, model, expected):
    status, file = written(lines, model)
    assert (status, file.exists()) == (1, False)
    assert expected in capsys.readouterr().out


def test_a_model_that_was_not_fetched_is_named_with_the_command_that_fetches_it(written, capsys, tmp_path):
    written([])
    places = ["--directory", str(tmp_path / "elsewhere"), "--models", str(tmp_path / "models.yaml")]
    assert main([str(tmp_path / "corpus.jsonl"), "--model", "tiny", "--out", str(tmp_path / "x"), *places]) == 1
    assert "make models MODELS=tiny" in capsys.readouterr().out


@pytest.mark.parametrize("use", [COLBERT, PLAIN])
async def test_vectors_of_query_tokens_have_the_length_of_their_weights(opened, written, use):
    _, file = written(map(json.dumps, CORPUS))
    plain, weighted = opened(use), opened(use, file)
    query = "oil the brake,"
    row = ["[CLS]", "oil", "the", "brake", ",", "[SEP]"]
    if use is COLBERT:
        row = ["[CLS]", "[Q]", "oil", "the", "brake", ",", "[SEP]"]
    table = json.loads(file.read_text())
    wanted = await plain.encode_query(query) * np.array([[table[token]] for token in row])
    found = await weighted.encode_query(query)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert found.dtype == np.float32
    passages = ("oil the chain", "")
    for ours, theirs in zip(
        await weighted.encode_passages(passages), await plain.encode_passages(passages), strict=True
    ):
        np.testing.assert_array_equal(ours, theirs)
    assert {**plain.stamp, "idf_sha256": file_sha256(file)} == weighted.stamp


async def test_an_explanation_shows_the_weight_of_each_token_and_sums_up_to_the_score(opened, written):
    _, file = written(map(json.dumps, CORPUS))
    encoder, table = opened(COLBERT, file), json.loads(file.read_text())
    query, passage = await encoder.encode_query("brake the"), (await encoder.encode_passages(["the bike"]))[0]
    ((*matches,),) = await encoder.explain("brake the", ["the bike"], [passage])
    assert sum(match.score for match in matches) == pytest.approx((query @ passage.T).max(axis=1).sum(), abs=1e-5)
    assert {match.query: match.query_weight for match in matches} == pytest.approx(
        {token: table[token] for token in ("[CLS]", "[Q]", "brake", "the", "[SEP]", "[MASK]")}
    )
    for match in matches:
        assert match.score == pytest.approx(match.query_weight * match.document_weight)
        assert -1.001 <= match.document_weight <= 1.001


async def test_a_sparse_query_weighs_its_word_pieces_by_the_table_in_place_of_the_models(tmp_path):
    profile = sparse_checkpoint(tmp_path / "model", "inference-free", {"w1": 2.0})
    file = tmp_path / "idf.json"
    file.write_text(json.dumps({"[CLS]": 1.0, "w1": 0.25, "w2": 3.5}))
    encoder = SparseTextEncoder(profile, tmp_path / "model", Engine(threads=1), idf=file)
    found = await encoder.encode_query("w1 w2 w1 w3")
    assert dict(zip(found.terms.tolist(), found.weights.tolist(), strict=True)) == {11: 0.25, 12: 3.5}
    assert encoder.stamp["idf_sha256"] == file_sha256(file)
    document = SparseVector(np.array([11, 12], dtype=np.uint32), np.array([1.0, 2.0], dtype=np.float32))
    ((*matches,),) = await encoder.explain("w1 w2", ["w2 w1"], [document])
    assert {match.query: match.query_weight for match in matches} == {"w1": 0.25, "w2": 3.5}
    await encoder.close()


@pytest.mark.parametrize("method", ["splade", "sparta"])
def test_a_table_for_queries_that_a_model_encodes_is_refused(tmp_path, method):
    profile = sparse_checkpoint(tmp_path, method)
    with pytest.raises(ModelError, match="unset SPARSE_IDF"):
        SparseTextEncoder(profile, tmp_path, Engine(threads=1), idf=tmp_path / "idf.json")


@pytest.mark.parametrize(
    "content", ["[1.0]", '{"elephant": 1.0}', '{"oil": -1.0}', '{"oil": NaN}', '{"oil": 1.0}', None]
)
def test_a_table_that_does_not_fit_is_refused_with_the_command_that_writes_one(tmp_path, content):
    profile, file = small_token_encoder(tmp_path / "tiny", PLAIN), tmp_path / "idf.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ModelError, match=r"idf\.json.*workshop\.idf"):
        TokenEncoder(profile, tmp_path / "tiny", Engine(threads=1), idf=file)
