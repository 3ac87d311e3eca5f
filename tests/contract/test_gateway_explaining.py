"""Explanations through the gateway: the hits of an answer, by a sparse service over its real routes and storage."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from services.sparse.app import build_app
from services.sparse.settings import SparseSettings
from tests.support.backends import Fault, Stack, StoreStub, opened_stack

SPARSE = {"kind": "retrieve", "id": "splade", "backend": "sparse"}
BM25 = {"kind": "retrieve", "id": "bm25", "backend": "lexical"}
ALONE = {"name": "mine", "stages": [SPARSE]}
HYBRID = {"name": "mine", "stages": [{"kind": "fuse", "id": "fuse", "inputs": [BM25, SPARSE]}]}
QUERY = "fruit trees"


class SparseService(StoreStub):
    """The service itself in the place of a stub."""

    def __init__(self, directory: Path) -> None:
        super().__init__("sparse")
        self._settings = SparseSettings(directory=directory, encoder="hashing")

    def app(self) -> FastAPI:
        return build_app(self._settings)


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[Stack]:
    async with opened_stack(stores={"sparse": SparseService(tmp_path)}) as stack:
        yield stack


@pytest.mark.parametrize("include", [[], ["title"], ["text", "metadata"]])
async def test_each_hit_has_the_words_that_matched_and_they_sum_up_to_its_score(
    stack: Stack, include: list[str]
) -> None:
    body = (await stack.search(QUERY, ALONE, explain=True, include=include)).json()
    assert body["degraded"] == []
    places = {hit["id"]: hit["stages"]["splade"] for hit in body["hits"]}
    assert {match["query"] for match in places["tree"]["matches"]} == {"fruit", "trees"}
    for place in places.values():
        scores = [match["score"] for match in place["matches"]]
        assert scores == sorted(scores, reverse=True)
        assert sum(scores) == pytest.approx(place["score"], rel=1e-5)
    assert body["timings_ms"]["explain"] > 0
    assert "explain.explain" in body["timings_ms"]
    assert all(("title" in hit) == ("title" in include) for hit in body["hits"])


async def test_matches_stand_only_where_a_stage_explains_and_ranked_the_hit(stack: Stack) -> None:
    body = (await stack.search(QUERY, HYBRID, explain=True)).json()
    assert any(hit["stages"].keys() == {"bm25", "splade", "fuse"} for hit in body["hits"])
    for hit in body["hits"]:
        assert {name for name, place in hit["stages"].items() if "matches" in place} == hit["stages"].keys() & {
            "splade"
        }


@pytest.mark.parametrize("explain", [False, "candidates"])
async def test_nothing_is_explained_unasked(stack: Stack, explain: object) -> None:
    body = (await stack.search(QUERY, ALONE, explain=explain)).json()
    assert "explain" not in body["timings_ms"]
    assert "matches" not in str(body)


async def test_an_answer_for_more_hits_than_the_candidates_is_explained_below_them_too(stack: Stack) -> None:
    few = {"name": "mine", "stages": [{**SPARSE, "top": 1}]}
    body = (await stack.search("a red root that grows fruit", few, explain=True, top=5)).json()
    assert len(body["hits"]) > 1
    assert all(hit["stages"]["splade"]["matches"] for hit in body["hits"])


@pytest.mark.parametrize(("wire", "said"), [("sparse", "stage 'splade'"), ("lexical", "document store")])
@pytest.mark.parametrize("fault", ["status-500", "garbage"])
async def test_hits_stay_where_they_cannot_be_explained(stack: Stack, wire: str, said: str, fault: Fault) -> None:
    whole = (await stack.search(QUERY, ALONE)).json()

    # The search itself passes; what follows it fails.
    faulty = stack.wires[wire]
    if wire == "sparse":
        inner = faulty.handle_async_request

        async def handle(request):
            faulty.fault = fault if request.url.path.endswith("/explain") else None
            return await inner(request)

        faulty.handle_async_request = handle  # type: ignore[method-assign]
    else:
        faulty.fault = fault
    body = (await stack.search(QUERY, ALONE, explain=True)).json()
    assert [hit["id"] for hit in body["hits"]] == [hit["id"] for hit in whole["hits"]]
    (degraded,) = body["degraded"]
    assert (degraded["stage"], degraded["done"], degraded["of"]) == ("explain", 0, len(body["hits"]))
    assert said in degraded["detail"]
    assert "matches" not in str(body["hits"])


@pytest.mark.parametrize("gone", [False, True])
async def test_a_document_that_the_store_has_with_another_text_or_no_more_is_reported(stack: Stack, gone: bool) -> None:
    held = stack.lexical.held("demo@1").documents
    apple = held.pop("apple")
    if not gone:
        held["apple"] = apple.model_copy(update={"text": "changed meanwhile"})
    body = (await stack.search(QUERY, ALONE, explain=True)).json()
    (degraded,) = body["degraded"]
    assert (degraded["stage"], degraded["done"]) == ("explain", degraded["of"] - 1)
    assert {hit["id"] for hit in body["hits"] if "matches" not in hit["stages"]["splade"]} == {"apple"}


async def test_a_stage_may_not_be_named_as_the_time_of_explaining(stack: Stack) -> None:
    named = {"name": "mine", "stages": [{**SPARSE, "id": "explain"}]}
    assert (await stack.search(QUERY, named)).status_code == 422
