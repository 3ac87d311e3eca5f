"""Re-ranking by stored token vectors, as callers of the gateway see it: the real service behind the gateway's wires."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from services.chassis.deadlines import Deadline
from services.late_interaction.app import build_app
from services.late_interaction.encoder_hashing import HashingTokenEncoder
from services.late_interaction.scoring import max_sim
from services.late_interaction.settings import LateInteractionSettings
from tests.support.backends import DOCUMENTS, Stack, opened_stack

QUERY = "fruit trees root"
FIRST = {"kind": "retrieve", "backend": "lexical"}
RERANK = {"kind": "rerank", "id": "colbert", "backend": "late_interaction", "weight": 1.0, "on_failure": "skip"}
FAMILY = "late_interaction"


class LateInteraction:
    """The service with the encoder that needs no model; opened_stack takes it for a store."""

    family = FAMILY

    def __init__(self, directory: Path) -> None:
        self._app = build_app(LateInteractionSettings(encoder="hashing", directory=directory, storage="fp16"))

    def app(self) -> FastAPI:
        return self._app


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    stores: Any = {FAMILY: LateInteraction(tmp_path)}
    async with opened_stack(stores=stores) as stack:
        yield stack


def inline(**changes: object) -> dict[str, object]:
    return {"name": "mine", "stages": [FIRST, RERANK | changes]}


async def search(stack: Stack, **changes: object) -> dict[str, Any]:
    answer = await stack.search(QUERY, inline(**changes))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def post(stack: Stack, path: str, body: object) -> None:
    """Calls the service behind the gateway's back."""
    transport = stack.wires[FAMILY]
    async with httpx.AsyncClient(transport=transport, base_url="http://late") as client:
        assert (await client.post(path, json=body)).is_success


async def expected() -> dict[str, float]:
    encoder, later = HashingTokenEncoder(), Deadline.after_ms(60_000)
    query = await encoder.encode_query(QUERY, later)
    texts = {str(one["id"]): f"{one['title']} {one['text']}" for one in DOCUMENTS}
    vectors = await encoder.encode_passages(tuple(texts.values()), later)
    return {one: max_sim(query, vector) for one, vector in zip(texts, vectors, strict=True)}


async def test_candidates_are_ordered_by_max_sim_and_no_text_is_read(stack: Stack) -> None:
    body, wanted = await search(stack), await expected()
    found = [hit["id"] for hit in body["hits"]]
    assert len(found) == 5
    assert found == sorted(found, key=lambda one: (-wanted[one], one))
    assert (body["models"], body["degraded"], stack.lexical.fetched) == ({"colbert": "hashing@none"}, [], [])


async def test_the_text_is_read_only_of_documents_without_vectors(stack: Stack) -> None:
    before = await search(stack)
    await post(stack, "/v1/collections/demo@1/documents/delete", {"ids": ["carrot", "tree"]})
    after = await search(stack)
    assert [(hit["id"], pytest.approx(hit["score"], abs=1e-5)) for hit in after["hits"]] == [
        (hit["id"], hit["score"]) for hit in before["hits"]
    ]
    assert [sorted(one.ids) for one in stack.lexical.fetched] == [["carrot", "tree"]]


async def test_a_failure_is_a_degradation_or_an_error(stack: Stack) -> None:
    first = [hit["id"] for hit in (await stack.search(QUERY, {"name": "mine", "stages": [FIRST]})).json()["hits"]]
    stack.wires[FAMILY].fault = "refused"
    body = await search(stack)
    assert [hit["id"] for hit in body["hits"]] == first
    assert [(one["stage"], one["reason"], one["done"]) for one in body["degraded"]] == [("colbert", "unreachable", 0)]
    assert (await stack.search(QUERY, inline(on_failure="fail"))).status_code == 503


async def test_a_generation_that_the_service_lacks_is_an_error_that_says_what_to_do(stack: Stack) -> None:
    async with httpx.AsyncClient(transport=stack.wires[FAMILY], base_url="http://late") as client:
        assert (await client.delete("/v1/collections/demo@1")).is_success
    body = await search(stack)
    assert [(one["reason"], "load the collection again" in one["detail"]) for one in body["degraded"]] == [
        ("refused", True)
    ]
    assert (await stack.search(QUERY, inline(on_failure="fail"))).status_code in (404, 409)


async def test_a_hit_is_explained_by_the_tokens_that_matched(stack: Stack) -> None:
    answer = await stack.search(QUERY, inline(), explain=True)
    places = answer.json()["hits"][0]["stages"]["colbert"]["matches"]
    assert ("fruit", "fruit", 1.0) in [(one["query"], one["document"], pytest.approx(one["score"])) for one in places]


@pytest.mark.parametrize(
    ("declared", "taken"),
    [
        ({}, "hybrid-colbert"),
        ({"backends": ["lexical", "dense"]}, "hybrid"),
        ({"backends": ["lexical"]}, "bm25"),
        ({"pipeline": "dense"}, "dense"),
    ],
)
async def test_a_search_that_names_no_pipeline_takes_the_declared_one_or_the_best_that_the_collection_serves(
    stack: Stack, declared: dict[str, object], taken: str
) -> None:
    build, path = {"build": "first-load"}, "/v1/collections/own"
    assert (await stack.client.put(path, json={**declared, **build})).status_code == 200
    sent = await stack.client.post(f"{path}/documents", json={"documents": DOCUMENTS, **build})
    assert sent.json()["complete"]
    assert (await stack.client.post(f"{path}/publish", json=build)).is_success
    answer = (await stack.client.post(f"{path}/search", json={"query": QUERY})).json()
    assert (answer["pipeline"]["name"], answer["degraded"]) == (taken, [])
