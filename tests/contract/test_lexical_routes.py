"""The wire of the lexical service, on the embedded engine, over an ASGI transport."""

from collections.abc import AsyncIterator

import httpx
import pytest

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from tests.support.opened_client import opened_client
from tests.support.scratch import scratch

GENERATION = "/v1/collections/notes@1"
DECLARATION = {"presets": ["beir", "anserini-flat"], "metadata": {"year": "number"}}
DOCUMENTS = [
    {"id": "a", "title": "Brakes", "text": "The pad squeals.", "metadata": {"year": 2019}},
    {"id": "b", "text": "A wheel\u0000 wobbles."},
    {"id": "c", "text": "Brake cable frayed."},
]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    with scratch() as directory:
        async with opened_client(build_app(LexicalSettings(directory=directory))) as client:
            yield client


@pytest.fixture
async def filled(client: httpx.AsyncClient) -> httpx.AsyncClient:
    assert (await client.put(GENERATION, json=DECLARATION)).status_code == 200
    report = await client.post(f"{GENERATION}/documents", json={"documents": DOCUMENTS})
    assert report.json() == {"indexed": 3, "unchanged": 0, "errors": [], "encoded": 0}
    assert (await client.post(f"{GENERATION}/finish", json={})).json()["documents"] == 3
    return client


async def search(client: httpx.AsyncClient, **asked: object) -> httpx.Response:
    return await client.post(f"{GENERATION}/search", json=asked)


async def test_a_search_answers_ids_and_scores_and_its_time(filled: httpx.AsyncClient) -> None:
    answer = await search(filled, query="squealing brakes", top=5)
    body = answer.json()
    assert body["generation"] == "notes@1"
    assert [hit["id"] for hit in body["hits"]] == ["a", "c"]
    assert body["hits"][0]["score"] > body["hits"][1]["score"] > 0
    assert "bm25;dur=" in answer.headers["server-timing"]


async def test_documents_come_with_hits_where_they_are_asked_for(filled: httpx.AsyncClient) -> None:
    plain = (await search(filled, query="brakes")).json()
    body = (await search(filled, query="brakes", include=["title", "metadata"])).json()
    assert plain.keys() == {"generation", "hits"}
    assert body.pop("documents") == [
        {"id": "c", "title": "", "text": "", "metadata": {}},
        {"id": "a", "title": "Brakes", "text": "", "metadata": {"year": 2019}},
    ]
    assert body == plain


async def test_collections_report_their_state(filled: httpx.AsyncClient) -> None:
    state = (await filled.post(f"{GENERATION}/publish", json={})).json()
    assert (state["generation"], state["published"], state["documents"]) == ("notes@1", True, 3)
    assert state["declaration"] == DECLARATION
    assert state["engine"].startswith("qdrant-edge ")
    assert (await filled.get(GENERATION)).json() == state
    assert (await filled.get("/v1/collections")).json()["collections"] == [state]


async def test_documents_are_fetched_and_deleted_by_id(filled: httpx.AsyncClient) -> None:
    deleted = await filled.post(f"{GENERATION}/documents/delete", json={"ids": ["c", "x"]})
    assert deleted.json() == {"deleted": 1, "errors": []}
    answer = (await filled.post(f"{GENERATION}/documents/get", json={"ids": ["c", "b", "a"]})).json()
    assert answer["missing"] == ["c"]
    assert answer["documents"] == [{"id": "b", "title": "", "text": "A wheel wobbles.", "metadata": {}}, DOCUMENTS[0]]


BAD_SEARCHES: dict[str, tuple[dict[str, object], str]] = {
    "exact": ({"query": "a", "exact": True}, "always exact"),
    "a beam": ({"query": "a", "beam": 300}, "it is for vectors"),
    "an undeclared preset": ({"query": "a", "preset": "anserini-multifield"}, "declared are: beir, anserini-flat"),
    "an undeclared field": (
        {"query": "a", "filter": {"all": [{"field": "tag", "op": "exists"}]}},
        "declared are: year",
    ),
    "an empty query": ({"query": " "}, "must not be empty"),
    "a top of 0": ({"query": "a", "top": 0}, "top"),
    "eleven excluded ids": ({"query": "a", "exclude_ids": list("abcdefghijk")}, "exclude_ids"),
}


@pytest.mark.parametrize("name", BAD_SEARCHES)
async def test_a_bad_search_is_a_422_that_says_why(filled: httpx.AsyncClient, name: str) -> None:
    asked, said = BAD_SEARCHES[name]
    answer = await search(filled, **asked)
    assert answer.status_code == 422
    assert said in answer.json()["detail"]


@pytest.mark.parametrize("generation", ["notes", "Notes@1", "notes@0", "@1", "notes@1@2", "%2E%2E@1", "notes@01"])
async def test_a_name_that_is_no_generation_is_a_4xx(client: httpx.AsyncClient, generation: str) -> None:
    answer = await client.put(f"/v1/collections/{generation}", json=DECLARATION)
    assert answer.status_code == 422


MINE = {"name": "mine", "match": "best_fields", "k1": 1.2, "b": 0.75, "tie_breaker": 0.5}


async def test_the_boosts_of_a_preset_are_in_its_stamp_and_only_where_there_are_any(client: httpx.AsyncClient) -> None:
    for generation, boosts, stamp in (
        ("notes@1", {}, "best_fields k1=1.2 b=0.75 tie_breaker=0.5"),
        ("notes@2", {"title": 2.0}, "best_fields k1=1.2 b=0.75 tie_breaker=0.5 title^2.0"),
    ):
        state = (
            await client.put(f"/v1/collections/{generation}", json={"presets": [{**MINE, "boosts": boosts}]})
        ).json()
        assert state["stamp"]["preset.mine"] == stamp
        assert ("boosts" in state["declaration"]["presets"][0]) == bool(boosts)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"language": "klingon"}, "'english', 'cjk', 'danish'"),
        ({"boosts": {"body": 2.0}}, "boosts.body"),
        ({"boosts": {"title": 0.0}}, "boosts.title"),
        ({"boosts": {"title": 2.0}, "match": "flat"}, "only best_fields and most_fields"),
    ],
)
async def test_a_preset_that_cannot_be_is_refused_with_what_is_allowed(
    client: httpx.AsyncClient, wrong: dict[str, object], said: str
) -> None:
    answer = await client.put(GENERATION, json={"presets": [{**MINE, **wrong}]})
    assert answer.status_code == 422
    assert said in answer.json()["detail"]
