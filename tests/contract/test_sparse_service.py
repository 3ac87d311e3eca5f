"""The sparse service over HTTP and Qdrant Edge: its scores are NumPy's, and what it explains is what it scored."""

import itertools
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.inference.open_model import Engine
from services.inference.sparse_encoder import SparseTextEncoder
from services.sparse.encoder import SparseEncoder
from services.sparse.encoder_hashing import HashingTermEncoder
from services.sparse.settings import SparseSettings
from services.vectorservice.compose import build_vector_app
from tests.contract.sparse_encoder import product
from tests.support.opened_client import ok, opened_client
from tests.support.passages import soon
from tests.support.sparse_checkpoints import IDF, sparse_checkpoint

QUERY = "w1 w2 w1"
ENCODERS = ("hashing", "splade", "sparta", "inference-free")


def texts() -> dict[str, str]:
    """Texts of random words, and three that are equal."""
    drawn = random.Random(5)
    some = {f"d{number:02}": " ".join(f"w{drawn.randrange(10)}" for _ in range(6)) for number in range(40)}
    return some | dict.fromkeys(("t3", "t1", "t2"), "w1 w2 w5")


@pytest.fixture(params=ENCODERS)
def encoder(request: pytest.FixtureRequest, tmp_path: Path) -> SparseEncoder:
    match request.param:
        case "hashing":
            return HashingTermEncoder()
        case "inference-free":
            profile = sparse_checkpoint(tmp_path / "model", "inference-free", IDF)
        case method:
            bias = 3.0 if method == "sparta" else 0.0  # without it, no text has a term of the query
            profile = sparse_checkpoint(tmp_path / "model", method, bias=bias)
    return SparseTextEncoder(profile, tmp_path / "model", Engine(threads=1))


@asynccontextmanager
async def loaded(directory: Path, encoder: SparseEncoder) -> AsyncIterator[httpx.AsyncClient]:
    """A service that holds the texts as `notes@1`. It closes the encoder."""
    settings = SparseSettings(directory=directory / "data")
    async with opened_client(build_vector_app("sparse", settings, lambda: encoder)) as client:
        await ok(client.put("/v1/collections/notes@1", json={"metadata": {}}))
        documents = [{"id": one, "text": text} for one, text in texts().items()]
        await ok(client.post("/v1/collections/notes@1/documents", json={"documents": documents}))
        yield client


async def explained(client: httpx.AsyncClient, documents: Sequence[dict[str, str]]) -> dict[str, list[dict[str, Any]]]:
    body = {"query": QUERY, "documents": list(documents)}
    answer = await ok(client.post("/v1/collections/notes@1/explain", json=body))
    assert answer["generation"] == "notes@1"
    return {one["id"]: one["matches"] for one in answer["explanations"]}


async def test_scores_are_numpys_and_equal_ones_are_in_order_of_id(tmp_path: Path, encoder: SparseEncoder) -> None:
    async with loaded(tmp_path, encoder) as client:
        query = await encoder.encode_query(QUERY, soon())
        vectors = await encoder.encode_passages(tuple(texts().values()), soon())
        wanted = {one: product(query, vector) for one, vector in zip(texts(), vectors, strict=True)}
        answer = await ok(client.post("/v1/collections/notes@1/search", json={"query": QUERY, "top": 100}))
    found = {hit["id"]: hit["score"] for hit in answer["hits"]}
    assert found == pytest.approx({one: score for one, score in wanted.items() if score > 0}, rel=1e-5)
    for before, after in itertools.pairwise(answer["hits"]):
        assert (-before["score"], before["id"]) < (-after["score"], after["id"])
    assert found["t1"] == found["t2"] == found["t3"] > 0


async def test_an_explanation_sums_up_to_the_score_that_the_search_gave(tmp_path: Path, encoder: SparseEncoder) -> None:
    async with loaded(tmp_path, encoder) as client:
        answer = await ok(client.post("/v1/collections/notes@1/search", json={"query": QUERY, "top": 5}))
        hits = {hit["id"]: hit["score"] for hit in answer["hits"]}
        found = await explained(client, [{"id": one, "text": texts()[one]} for one in hits])
    assert list(found) == list(hits)
    sums = {one: sum(match["score"] for match in matches) for one, matches in found.items()}
    assert sums == pytest.approx(hits, rel=1e-5)


async def test_a_document_that_is_absent_or_has_another_text_is_not_explained(tmp_path: Path) -> None:
    async with loaded(tmp_path, HashingTermEncoder()) as client:
        asked = [{"id": "t1", "text": "w1 w2 w5"}, {"id": "t2", "text": "w1"}, {"id": "never", "text": "w1"}]
        found = await explained(client, asked)
    assert [(match["query"], match["document"]) for match in found["t1"]] == [("w1", "w1"), ("w2", "w2")]
    assert list(found) == ["t1"]
