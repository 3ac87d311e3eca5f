"""What a request's `top` may change: how many hits are answered, and nothing about those above."""

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.chassis.errors import Unavailable
from services.contracts.documents import Document
from services.contracts.retrieval import DEFAULT_BEAM, RetrievalAnswer, RetrievalRequest
from tests.support.backends import Stack, StoreStub, opened_stack

COUNT = 60
WORDS = ("brake", "chain", "saddle", "wheel", "bell")
Json = dict[str, object]


class RandomStore(StoreStub):
    """Scores drawn from query and document, with many ties. The dense one misses hits, others for each width of beam.

    As in Qdrant, the beam is at least as wide as the number of hits asked for.
    """

    def score(self, query: str, document: Document) -> float:
        return Random(f"{self.family} {query} {document.id}").randint(-3, 9) / 10

    def search(self, generation: str, request: RetrievalRequest) -> RetrievalAnswer:
        whole = super().search(generation, request.model_copy(update={"top": 1_000}))
        beam = None if self.family == "lexical" or request.exact else max(request.beam or DEFAULT_BEAM, request.top)
        seen = [hit for hit in whole.hits if beam is None or Random(f"{beam} {hit.id}").random() > 0.2]
        return whole.model_copy(update={"hits": tuple(seen[: request.top])})


retrieves = st.builds(
    lambda top, vectors: {"kind": "retrieve", "top": top, **vectors},
    st.integers(1, 12) | st.integers(1, 2 * COUNT),
    st.sampled_from([{"backend": "lexical"}, {"backend": "dense", "exact": True}])
    | st.builds(lambda beam: {"backend": "dense", "beam": beam}, st.integers(2 * COUNT, 200)),
)
fusing = st.sampled_from(
    [{"method": "rrf"}, *({"method": "weighted", "normalisation": n} for n in ("min-max", "z-score"))]
)


def fuses(inputs: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    several = st.lists(inputs, min_size=2, max_size=3)
    return st.builds(lambda how, legs: {"kind": "fuse", **how, "inputs": legs}, fusing, several)


rerank = st.builds(
    lambda top, weight: {"kind": "rerank", "top": top, "weight": weight}, st.integers(1, COUNT), st.floats(0, 1)
)
cut = st.builds(lambda top: {"kind": "cut", "top": top}, st.integers(1, 2 * COUNT))
pipelines = st.builds(
    lambda source, later: {"name": "random", "stages": [source, *later]},
    st.recursive(retrieves, fuses, max_leaves=4),
    st.lists(rerank | cut, max_size=2),
)


async def load(stack: Stack) -> None:
    random = Random(7)
    documents = [{"id": f"d{one:02}", "text": " ".join(random.choices(WORDS, k=9))} for one in range(COUNT)]
    build = {"build": "first"}
    assert (await stack.client.put("/v1/collections/demo", json=build)).status_code == 200
    sent = await stack.client.post("/v1/collections/demo/documents", json={"documents": documents, **build})
    assert sent.json()["complete"]
    assert (await stack.client.post("/v1/collections/demo/publish", json=build)).is_success


class Driven:
    """A stack over random stores on a loop of its own: hypothesis calls plain functions."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.context = opened_stack(stores={name: RandomStore(name) for name in ("lexical", "dense")}, ingested=False)
        self.stack = self.loop.run_until_complete(self.context.__aenter__())
        self.loop.run_until_complete(load(self.stack))

    def close(self) -> None:
        self.loop.run_until_complete(self.context.__aexit__(None, None, None))
        self.loop.close()

    def answer(self, query: str, pipeline: Json, top: int, **more: object) -> dict[str, Any]:
        answer = self.loop.run_until_complete(
            self.stack.search(query, pipeline, top=top, explain=True, deadline_ms=60_000, **more)
        )
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        assert body["degraded"] == []
        return body

    def hits(self, query: str, pipeline: Json, top: int) -> list[Json]:
        hits: list[Json] = self.answer(query, pipeline, top)["hits"]
        return hits


@pytest.fixture(scope="module")
def driven() -> Iterator[Driven]:
    driven = Driven()
    yield driven
    driven.close()


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    query=st.sampled_from(WORDS), pipeline=pipelines, tops=st.lists(st.integers(1, 2 * COUNT), min_size=2, max_size=3)
)
def test_the_first_hits_and_their_explanations_are_the_same_for_every_top(
    driven: Driven, query: str, pipeline: Json, tops: list[int]
) -> None:
    whole = driven.hits(query, pipeline, 1_000)
    for top in tops:
        assert driven.hits(query, pipeline, top) == whole[:top]
    order = [(-float(str(hit["score"])), str(hit["id"])) for hit in whole]
    assert order == sorted(order)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(query=st.sampled_from(WORDS), pipeline=pipelines, top=st.integers(1, COUNT))
def test_pages_are_the_parts_of_what_a_larger_top_gives(driven: Driven, query: str, pipeline: Json, top: int) -> None:
    whole = driven.hits(query, pipeline, 1_000)
    counted = set()
    for offset in range(0, len(whole) + 2 * top, top):
        body = driven.answer(query, pipeline, top, offset=offset)
        assert body["hits"] == whole[offset : offset + top]
        assert body["page"]["more"] is (offset + top < len(whole))
        assert body["page"]["offset"] == offset
        counted.add(body["page"]["candidates"])
    (candidates,) = counted
    assert candidates <= len(whole)


def retrieve(backend: str, **more: object) -> Json:
    return {"kind": "retrieve", "id": backend, "backend": backend, **more}


def pipeline(*stages: object) -> Json:
    return {"name": "mine", "stages": list(stages)}


BOTH = {"kind": "fuse", "id": "fuse", "inputs": [retrieve("lexical", top=4), retrieve("dense", top=6)]}


def ids(body: dict[str, list[dict[str, str]]]) -> list[str]:
    return [hit["id"] for hit in body["hits"]]


async def test_as_many_hits_as_there_are_candidates_cost_one_search_a_leg(stack: Stack) -> None:
    await stack.search("fruit", pipeline(BOTH), top=4)
    assert [asked.top for asked in stack.lexical.asked] == [4]
    assert [asked.top for asked in stack.dense.asked] == [6]


async def test_only_a_leg_shorter_than_the_answer_is_searched_deeper(stack: Stack) -> None:
    await stack.search("fruit", pipeline(BOTH), top=5)
    assert [asked.top for asked in stack.lexical.asked] == [1_000]
    assert [asked.top for asked in stack.dense.asked] == [6]


async def test_an_approximate_leg_is_searched_for_its_candidates_and_deeper_at_once(stack: Stack) -> None:
    stack.wires["dense"].delay_s = 0.2
    started = asyncio.get_running_loop().time()
    await stack.search("fruit", pipeline(BOTH), top=700, deadline_ms=5_000)
    assert asyncio.get_running_loop().time() - started < 0.38
    assert sorted(asked.top for asked in stack.dense.asked) == [6, 1_000]


async def test_only_candidates_are_re_ranked_and_they_stay_above_what_follows(stack: Stack) -> None:
    first = retrieve("dense", top=3)
    candidates = ids((await stack.search("fruit trees", pipeline(first), top=3)).json())
    body = (await stack.search("fruit trees", pipeline(first, {"kind": "rerank", "top": 100}), explain=True)).json()
    assert set(ids(body)[:3]) == set(candidates)
    assert len(ids(body)) == 5
    assert len(stack.reranker.asked[-1].passages) == 3
    assert ["rerank-2" in hit["stages"] for hit in body["hits"]] == [True] * 3 + [False] * 2


@pytest.mark.parametrize("top", [2, 4])
async def test_a_cut_bounds_the_answer_however_many_hits_are_asked_for(stack: Stack, top: int) -> None:
    body = (await stack.search("fruit trees", pipeline(retrieve("dense", top=3), {"kind": "cut", "top": top}))).json()
    assert len(body["hits"]) == top


async def test_an_explanation_of_a_candidate_tells_nothing_of_deeper_searches(stack: Stack) -> None:
    legs = [retrieve("lexical", top=1), retrieve("dense", top=1)]
    body = (await stack.search("orange", pipeline({**BOTH, "inputs": legs}), top=5, explain=True)).json()
    first, *following = body["hits"]
    assert {stage: place["rank"] for stage, place in first["stages"].items()} == {"lexical": 1, "dense": 1, "fuse": 1}
    assert [hit["stages"]["dense"]["rank"] for hit in following] == [2, 3, 4, 5]


class DeepSearchFails(StoreStub):
    """Searches for candidates, and has no answer to a deeper search."""

    def search(self, generation: str, request: RetrievalRequest) -> RetrievalAnswer:
        if request.top > 100:
            raise Unavailable("The deep one.", retry_after_s=60)
        return super().search(generation, request)


async def test_a_deeper_search_that_fails_is_its_stages_failure_and_is_told() -> None:
    async with opened_stack(stores={"vectors": DeepSearchFails("dense")}) as stack:
        legs = [retrieve("lexical", top=2), retrieve("vectors", top=2, on_failure="skip")]
        body = (await stack.search("fruit", pipeline({**BOTH, "inputs": legs}), top=3)).json()
        assert [(one["stage"], one["reason"]) for one in body["degraded"]] == [("vectors", "failed")]
        assert (await stack.search("fruit", pipeline({**BOTH, "inputs": legs}), top=2)).json()["degraded"] == []


async def test_a_page_tells_how_many_candidates_the_pipeline_has(stack: Stack) -> None:
    short = pipeline(retrieve("dense", top=3))
    body = (await stack.search("fruit trees", short, top=2, offset=2)).json()
    assert (body["page"], len(body["hits"])) == ({"offset": 2, "candidates": 3, "more": True}, 2)
    assert [hit["rank"] for hit in body["hits"]] == [3, 4]
    for offset in (999, 1_000, 5_000):
        beyond = (await stack.search("fruit trees", short, top=2, offset=offset)).json()
        assert (beyond["page"], beyond["hits"]) == ({"offset": offset, "candidates": 3, "more": False}, [])
    assert "page" not in (await stack.search("fruit trees", short, top=2)).json()


async def test_a_retrieve_that_no_stage_follows_asks_for_no_more_hits_than_its_request(stack: Stack) -> None:
    alone, later = retrieve("dense", top=200), {"kind": "cut", "top": 5}
    await stack.search("fruit", pipeline(alone), top=3)
    await stack.search("fruit", pipeline(alone, later), top=3)
    await stack.search("fruit", pipeline({**BOTH, "inputs": [retrieve("lexical", top=2), alone]}), top=3)
    assert [asked.top for asked in stack.dense.asked] == [3, 200, 200]


@pytest.mark.parametrize(
    ("leg", "told"),
    [
        (retrieve("lexical", beam=300), "beam is for vectors; backend 'lexical' is lexical"),
        (retrieve("dense", beam=300, exact=True), "an exact search has none; leave out beam or exact"),
        (
            retrieve("dense", top=257),
            "top 257 needs a beam of at least 257, and it has the default beam of 256; write `beam: 257` or more, or "
            "`top: 256` or less",
        ),
        (retrieve("dense", top=300, beam=299), "and it has a beam of 299; write `beam: 300` or more"),
    ],
)
async def test_a_beam_that_does_not_fit_is_refused_with_what_to_write(stack: Stack, leg: Json, told: str) -> None:
    answer = await stack.search("fruit", pipeline(leg))
    assert answer.status_code == 422
    assert told in answer.json()["detail"]
