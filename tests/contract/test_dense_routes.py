"""The dense service over HTTP, with real storage on disk and an encoder without weights."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.support.opened_client import opened_client

DECLARATION = {"presets": ["beir"], "metadata": {"topic": "keyword", "year": "number"}}
DOCUMENTS: list[dict[str, object]] = [
    {"id": "a", "title": "Chain", "text": "oil the chain", "metadata": {"topic": "drive", "year": 2019}},
    {"id": "b", "title": "Brake", "text": "bleed the brake", "metadata": {"topic": "brakes", "year": 2020}},
    {"id": "c", "title": "", "text": ""},
]


def service(directory: Path, query_cache_mb: int = 0) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return opened_client(
        build_app(DenseSettings(directory=directory, encoder="hashing", query_cache_mb=query_cache_mb))
    )


@pytest.fixture
async def dense(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    async with service(tmp_path) as client:
        yield client


@pytest.fixture
async def notes(dense: httpx.AsyncClient) -> httpx.AsyncClient:
    await dense.put("/v1/collections/notes@1", json=DECLARATION)
    await index(dense)
    return dense


async def index(client: httpx.AsyncClient, documents: Any = DOCUMENTS, generation: str = "notes@1") -> dict[str, Any]:
    answer = await client.post(f"/v1/collections/{generation}/documents", json={"documents": documents})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def search(client: httpx.AsyncClient, generation: str = "notes@1", **asked: Any) -> httpx.Response:
    return await client.post(f"/v1/collections/{generation}/search", json={"query": "chain oil", **asked})


def ids(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [hit["id"] for hit in answer.json()["hits"]]


async def test_only_changed_passages_are_encoded(notes: httpx.AsyncClient) -> None:
    moved = {**DOCUMENTS[0], "metadata": {"topic": "brakes"}}
    changed = {**DOCUMENTS[1], "text": "bleed the front brake"}
    report = await index(notes, [moved, changed, DOCUMENTS[2]])
    assert (report["indexed"], report["unchanged"], report["encoded"]) == (2, 1, 1)
    found = await search(notes, filter={"all": [{"field": "topic", "op": "eq", "value": "brakes"}]})
    assert ids(found) == ["a", "b"]


async def test_a_broken_off_load_done_again_equals_a_clean_one(tmp_path: Path) -> None:
    documents = [{"id": f"d{n:03d}", "text": f"word{n % 7} word{n % 11} word{n}"} for n in range(150)]
    async with service(tmp_path / "clean") as client:
        await client.put("/v1/collections/notes@1", json=DECLARATION)
        await index(client, documents)
        clean = (await search(client, query="word3 word5", top=150, exact=True)).json()
    async with service(tmp_path / "broken") as client:
        await client.put("/v1/collections/notes@1", json=DECLARATION)
        await index(client, documents[:70])
    async with service(tmp_path / "broken") as client:
        await client.put("/v1/collections/notes@1", json=DECLARATION)
        report = await index(client, documents)
        again = (await search(client, query="word3 word5", top=150, exact=True)).json()
    assert (report["unchanged"], report["indexed"]) == (70, 80)
    assert again == clean


async def test_a_field_of_another_kind_is_an_error_of_its_document_alone(notes: httpx.AsyncClient) -> None:
    years: dict[str, object] = {"x": "soon", "y": 2021}
    report = await index(notes, [{"id": one, "text": "", "metadata": {"year": year}} for one, year in years.items()])
    assert report["indexed"] == 1
    assert [error["id"] for error in report["errors"]] == ["x"]
    assert "year" in report["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"preset": "beir"}, "preset"),
        ({"include": ["title"]}, "include: a vector backend stores no documents"),
        ({"beam": 300, "exact": True}, "leave out beam or exact"),
        ({"beam": 0}, "beam"),
        ({"filter": {"all": [{"field": "author", "op": "exists"}]}}, "declared are: topic, year"),
        ({"filter": {"all": [{"field": "topic", "op": "gte", "value": "a"}]}}, "topic is a keyword"),
        ({"filter": {"all": [{"field": "year", "op": "eq", "value": "2019"}]}}, "year is declared as a number"),
        ({"top": 0}, "top"),
        ({"query": " "}, "query"),
    ],
)
async def test_what_cannot_be_asked_is_a_422(notes: httpx.AsyncClient, asked: dict[str, Any], said: str) -> None:
    answer = await search(notes, **asked)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


async def test_a_collection_of_another_model_is_listed_but_not_opened(tmp_path: Path) -> None:
    async with service(tmp_path) as before:
        await before.put("/v1/collections/notes@1", json=DECLARATION)
    record = tmp_path / "notes@1" / "collection.json"
    record.write_text(record.read_text().replace('"model": "hashing"', '"model": "another"'))
    async with service(tmp_path) as after:
        assert (await after.get("/v1/collections/notes@1")).json()["stamp"]["model"] == "another"
        for answer in (
            await search(after),
            await after.post("/v1/collections/notes@1/documents", json={"documents": DOCUMENTS}),
            await after.put("/v1/collections/notes@1", json=DECLARATION),
            await after.post("/v1/collections/notes@1/publish", json={}),
        ):
            assert answer.status_code == 409
            assert "model: another" in answer.json()["detail"]
            assert "model: hashing" in answer.json()["detail"]


async def test_it_is_ready_and_times_its_stages(notes: httpx.AsyncClient) -> None:
    health = (await notes.get("/readyz")).json()
    assert (health["status"], [check["name"] for check in health["checks"]]) == ("ready", ["store", "encoder"])
    timing = (await search(notes)).headers["server-timing"]
    assert "encode;dur=" in timing
    assert "ann;dur=" in timing


async def test_a_query_that_comes_again_is_answered_from_the_cache_and_the_answer_says_so(tmp_path: Path) -> None:
    async with service(tmp_path, query_cache_mb=1) as client:
        await client.put("/v1/collections/notes@1", json=DECLARATION)
        await index(client)
        first, again = await search(client), await search(client)
        decomposed, composed = await search(client, query="cafe\u0301"), await search(client, query="caf\u00e9")
        fresh = await client.post(
            "/v1/collections/notes@1/search", json={"query": "chain oil"}, headers={"cache-control": "no-store"}
        )
        batch = await client.post("/v1/embeddings", json={"input": ["chain oil", "brake"], "input_type": "query"})
        metrics = (await client.get("/metrics")).text
    answers = (first, again, decomposed, composed, fresh, batch)
    cached = [answer.headers.get("x-cached-results") for answer in answers]
    assert cached == ["0/1", "1/1", "0/1", "1/1", None, "1/2"]
    assert first.json() == again.json() == fresh.json()
    assert 'cached_results_total{outcome="hit"} 3.0' in metrics
    assert 'cached_results_total{outcome="miss"} 3.0' in metrics
