"""Re-ranking that ran out of time, and two re-rankers one after the other, as callers of the gateway see them."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from tests.support.backends import DOCUMENTS, Stack, inline, opened_stack
from tests.support.reranker_stub import RerankerStub

FIRST = {"kind": "retrieve", "backend": "dense"}
RERANK = {"kind": "rerank", "id": "rerank", "on_failure": "skip"}


# Enough for a re-ranking of a part of them (LEAST_SCORED).
MANY = [{**one, "id": f"{one['id']}{number}"} for number in range(4) for one in DOCUMENTS]


@pytest.fixture
async def many() -> AsyncIterator[Stack]:
    async with opened_stack(documents=MANY) as stack:
        yield stack


def ids(body: Mapping[str, list[Mapping[str, str]]]) -> list[str]:
    return [hit["id"] for hit in body["hits"]]


async def test_what_was_scored_comes_first_the_rest_in_retrieval_order_and_the_answer_says_how_many(
    many: Stack,
) -> None:
    retrieved = ids((await many.search("fruit trees", inline(FIRST), top=20)).json())
    many.reranker.most = 15
    body = (await many.search("fruit trees", inline(FIRST, RERANK), top=20)).json()
    assert set(ids(body)[:15]) == set(retrieved[:15])
    assert ids(body)[15:] == retrieved[15:]
    assert [(d["stage"], d["reason"], d["done"], d["of"]) for d in body["degraded"]] == [("rerank", "deadline", 15, 20)]
    scores = [hit["score"] for hit in body["hits"]]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize(("documents", "most"), [(MANY, 9), (DOCUMENTS, 4)])
async def test_too_few_scores_to_make_a_ranking_better_change_nothing(
    documents: list[dict[str, object]], most: int
) -> None:
    async with opened_stack(documents=documents) as stack:
        retrieved = ids((await stack.search("fruit trees", inline(FIRST), top=20)).json())
        stack.reranker.most = most
        body = (await stack.search("fruit trees", inline(FIRST, RERANK), top=20)).json()
        assert ids(body) == retrieved
        assert [(d["reason"], d["done"], d["of"]) for d in body["degraded"]] == [("deadline", 0, len(documents))]
        assert body["models"] == {}


async def rerank_in_pairs(stack: Stack, times: int) -> None:
    """Re-ranks in pairs: where one of two that run at once meets overload, the limit shrinks by a tenth."""
    for _ in range(times):
        await asyncio.gather(*(stack.search("fruit trees", inline(FIRST, RERANK)) for _ in range(2)))


async def test_more_rerankings_than_there_is_time_for_are_left_out(stack: Stack) -> None:
    stack.reranker.most, stack.reranker.needs_ms = 0, 100.0
    await rerank_in_pairs(stack, 60)
    stack.reranker.most, stack.reranker.needs_ms = None, None
    asked_before = len(stack.reranker.asked)
    stack.wires["reranker"].delay_s = 0.3
    asked = await asyncio.gather(*(stack.search("fruit trees", inline(FIRST, RERANK)) for _ in range(6)))
    reasons = [[one["reason"] for one in answer.json()["degraded"]] for answer in asked]
    assert reasons.count([]) == 1
    assert reasons.count(["overloaded"]) == 5
    assert len(stack.reranker.asked) == asked_before + 1


async def test_deadlines_that_are_too_short_by_themselves_leave_the_rerankings_of_others_alone(stack: Stack) -> None:
    stack.reranker.most, stack.reranker.needs_ms = 0, 100_000.0
    await rerank_in_pairs(stack, 3)
    metrics = (await stack.client.get("/metrics")).text
    assert 'admission_limit{lane="reranker"} 128.0' in metrics


async def test_texts_that_a_full_store_refuses_leave_out_rerankings_too(stack: Stack) -> None:
    stack.wires["lexical"].fault = "overloaded"
    await rerank_in_pairs(stack, 1)
    metrics = (await stack.client.get("/metrics")).text
    assert 'admission_limit{lane="reranker"} 128.0' not in metrics


async def test_too_few_scores_for_the_work_of_others_are_said_to_be_overload(stack: Stack) -> None:
    stack.reranker.most, stack.reranker.needs_ms = 0, 100.0
    told = (await stack.search("fruit trees", inline(FIRST, RERANK))).json()["degraded"]
    assert [(one["reason"], one["done"]) for one in told] == [("overloaded", 0)]
    assert "try again later" in told[0]["detail"]


@pytest.mark.parametrize(
    ("on_failure", "settings", "most"), [("skip", {}, 0.33), ("skip", {"rerank_share": 0.1}, 0.1), ("fail", {}, 0.9)]
)
async def test_a_slow_reranker_has_a_third_of_the_deadline_if_it_may_be_skipped(
    on_failure: str, settings: dict[str, Any], most: float
) -> None:
    async with opened_stack(**settings) as stack:
        retrieved = ids((await stack.search("fruit trees", inline(FIRST))).json())
        stack.wires["reranker"].delay_s = 30.0
        pipeline = inline(FIRST, {**RERANK, "on_failure": on_failure})
        answer = await stack.search("fruit trees", pipeline, deadline_ms=1_000)
        given = [int(headers["x-deadline-ms"]) for headers in stack.wires["reranker"].request_headers]
        assert 0 < given[-1] <= 1_000 * most
        if on_failure == "skip":
            assert ids(answer.json()) == retrieved
            assert [(d["reason"], d["done"]) for d in answer.json()["degraded"]] == [("timeout", 0)]


async def test_what_is_left_of_the_default_deadline_of_a_search_is_what_a_reranker_gets_a_third_of(
    stack: Stack,
) -> None:
    await stack.client.post("/v1/collections/demo/search", json={"query": "fruit", "pipeline": "hybrid-rerank"})
    given = [int(headers["x-deadline-ms"]) for headers in stack.wires["reranker"].request_headers]
    assert 0 < given[-1] <= 0.33 * 2_000


async def test_a_reranker_without_time_for_ten_leaves_the_answer_at_the_time_of_the_stage_before(many: Stack) -> None:
    many.reranker.most = 9
    answer = await many.search("fruit trees", inline(FIRST, RERANK), top=20, deadline_ms=60_000)
    body = answer.json()
    assert [(d["reason"], d["done"], d["of"]) for d in body["degraded"]] == [("deadline", 0, 20)]
    assert body["timings_ms"]["total"] < 0.1 * 60_000


async def test_no_text_is_read_for_a_reranker_whose_share_is_too_short_for_a_call() -> None:
    async with opened_stack(rerank_share=0.001) as stack:
        body = (await stack.search("fruit trees", inline(FIRST, RERANK), deadline_ms=2_000)).json()
        assert [(d["stage"], d["reason"]) for d in body["degraded"]] == [("rerank", "deadline")]
        assert not stack.lexical.fetched


async def test_a_rerank_that_must_not_fail_asks_for_all_scores_or_an_error(stack: Stack) -> None:
    stack.reranker.most = 0
    body = (await stack.search("fruit trees", inline(FIRST, {**RERANK, "on_failure": "fail"}))).json()
    assert body["degraded"] == []
    await stack.search("fruit trees", inline(FIRST, RERANK))
    assert [request.partial for request in stack.reranker.asked] == [False, True]


async def test_documents_without_a_text_and_those_without_a_score_are_told_apart(many: Stack) -> None:
    del many.lexical.generations["demo@1"].documents["tree0"]
    many.reranker.most = 16
    body = (await many.search("fruit trees", "hybrid-rerank", top=20)).json()
    assert [(d["reason"], d["done"], d["of"]) for d in body["degraded"]] == [
        ("no_document_store", 19, 20),
        ("deadline", 16, 20),
    ]


async def test_a_leg_that_must_not_fail_may_take_the_time_of_what_needs_it(stack: Stack) -> None:
    stack.wires["lexical"].delay_s = stack.wires["reranker"].delay_s = 0.65
    body = (await stack.search("fruit trees", "bm25-rerank", deadline_ms=1_000)).json()
    assert {"apple", "tree"} == set(ids(body)[:2])
    assert body["degraded"][0]["stage"] == "rerank"


async def test_callers_who_want_fresh_results_are_heard_by_every_backend(stack: Stack) -> None:
    body = {"query": "fruit", "pipeline": "hybrid-rerank"}
    for headers in ({"cache-control": "max-age=0, No-Store"}, {}):
        await stack.client.post("/v1/collections/demo/search", json=body, headers=headers)
    asked = [headers.get("cache-control") for headers in stack.wires["reranker"].request_headers]
    assert asked == ["no-store", None]


@pytest.fixture
async def cascade() -> AsyncIterator[tuple[Stack, RerankerStub]]:
    small = RerankerStub(model="small", weight=1.0)
    async with opened_stack(rerankers={"reranker-small": small}) as stack:
        yield stack, small


WIDE = {**RERANK, "id": "wide", "backend": "reranker-small", "top": 4}
NARROW = {**RERANK, "id": "narrow", "backend": "reranker", "top": 2}
CASCADE = inline(FIRST, WIDE, NARROW)


async def test_a_cascade_is_two_rerank_stages_over_two_backends(cascade: tuple[Stack, RerankerStub]) -> None:
    stack, small = cascade
    body = (await stack.search("fruit trees", CASCADE)).json()
    assert [len(ranker.asked[0].passages) for ranker in (small, stack.reranker)] == [4, 2]
    assert body["models"] == {"wide": "small", "narrow": "overlap"}
    assert body["degraded"] == []
    wide = ids((await stack.search("fruit trees", inline(FIRST, WIDE))).json())
    assert set(ids(body)[:2]) == set(wide[:2])
    assert ids(body)[2:] == wide[2:]


async def test_a_cascade_whose_second_model_is_gone_answers_with_the_first(cascade: tuple[Stack, RerankerStub]) -> None:
    stack, _ = cascade
    wide = ids((await stack.search("fruit trees", inline(FIRST, WIDE))).json())
    stack.wires["reranker"].fault = "refused"
    body = (await stack.search("fruit trees", CASCADE)).json()
    assert ids(body) == wide
    assert [(d["stage"], d["reason"]) for d in body["degraded"]] == [("narrow", "unreachable")]
