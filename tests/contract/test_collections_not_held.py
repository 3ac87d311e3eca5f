"""A collection that one service lacks (another engine took its place): said so, with the cure, and without "wait"."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.backends import DECLARATION, DOCUMENTS, Stack, opened_stack

DEMO = "/v1/collections/demo"
RETRIEVE = {"kind": "retrieve", "backend": "dense"}


@pytest.fixture
async def stack() -> AsyncIterator[Stack]:
    async with opened_stack() as stack:
        stack.lexical.generations.clear()
        yield stack


def says_how(answer: httpx.Response) -> None:
    body = answer.json()
    assert (answer.status_code, body["type"]) == (409, "urn:problem:not-held"), answer.text
    assert "lexical" in body["detail"] or "document store" in body["detail"]
    assert "Waiting does not help: load the collection again (PUT" in body["detail"]
    assert "Try again" not in body["detail"]
    assert body["detail"].count("load the collection again") == 1
    assert "retry-after" not in answer.headers


async def test_a_search_that_needs_the_service_names_it_and_the_collection(stack: Stack) -> None:
    answer = await stack.search("fruit", "bm25")
    says_how(answer)
    assert "lexical: it does not hold demo@1." in answer.json()["detail"]


async def test_a_hybrid_search_is_flagged_with_the_same_words(stack: Stack) -> None:
    body = (await stack.search("fruit", "hybrid", include=["title"])).json()
    flagged = {one["stage"]: one["detail"] for one in body["degraded"]}
    assert set(flagged) == {"bm25", "include"}
    assert all("it does not hold demo@1. Waiting does not help" in detail for detail in flagged.values())


async def test_a_reranking_that_must_not_fail_says_that_the_texts_are_not_held(stack: Stack) -> None:
    says_how(await stack.search("fruit", {"name": "x", "stages": [RETRIEVE, {"kind": "rerank"}]}))


async def test_publishing_what_one_service_lacks_says_so_too(stack: Stack) -> None:
    answer = await stack.client.post(f"{DEMO}/publish", json={})
    says_how(answer)
    assert "begin it first" not in answer.json()["detail"]


async def test_a_batch_that_one_service_cannot_take_says_the_same_of_that_service(stack: Stack) -> None:
    report = (await stack.client.post(f"{DEMO}/documents", json={"documents": DOCUMENTS})).json()
    reasons = {one["backend"]: one["reason"] for one in report["services"]}
    assert report["complete"] is False
    assert reasons["dense"] is None
    assert "There is no collection demo@1 here. Waiting does not help: load the collection again" in reasons["lexical"]
    assert "with the `build` that PUT answers" in reasons["lexical"]


async def test_when_one_service_is_away_too_only_that_one_is_waited_for(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    answer = await stack.search("fruit", "hybrid")
    assert answer.status_code == 503
    assert "lexical: it does not hold demo@1." in answer.json()["detail"]
    assert answer.json()["detail"].endswith("Try again when dense is back.")


async def test_loading_it_again_as_told_makes_every_answer_whole(stack: Stack) -> None:
    begun = (await stack.client.put(DEMO, json=DECLARATION)).json()
    assert begun["generation"] == "demo@2"
    build = {"build": begun["build"]}
    assert (await stack.client.post(f"{DEMO}/documents", json={"documents": DOCUMENTS, **build})).json()["complete"]
    assert (await stack.client.post(f"{DEMO}/publish", json=build)).is_success
    body = (await stack.search("fruit", "hybrid-rerank")).json()
    assert (body["collection"], body["degraded"]) == ("demo@2", [])
