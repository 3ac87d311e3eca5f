"""A query's walk through a pipeline: what is answered when all is well, and what when parts of the stack are gone."""

import asyncio
import json
import logging
import re
import time
from collections import Counter

import pytest

from gateway.instruments import MOST_COLLECTIONS, GatewayInstruments
from services.chassis.server.serve import JsonFormatter
from tests.support.backends import DECLARATION, PATIENCE_MS, Fault, Stack, inline, opened_stack

RETRIEVES = [
    {"kind": "retrieve", "id": "bm25", "backend": "lexical", "on_failure": "skip"},
    {"kind": "retrieve", "id": "dense", "backend": "dense", "on_failure": "skip"},
]
FAULTS: list[tuple[Fault, str]] = [
    ("refused", "unreachable"),
    ("hung", "timeout"),
    ("status-500", "failed"),
    ("overloaded", "overloaded"),
    ("garbage", "failed"),
]


def ids(body: dict[str, list[dict[str, str]]]) -> list[str]:
    return [hit["id"] for hit in body["hits"]]


@pytest.mark.parametrize("pipeline", ["bm25", "dense", "hybrid", "bm25-rerank", "hybrid-rerank"])
async def test_every_pipeline_answers_in_order_undegraded_and_names_what_made_it(stack: Stack, pipeline: str) -> None:
    body = (await stack.search("fruit trees", pipeline)).json()
    assert {"apple", "tree"} == set(ids(body)[:2])
    assert [hit["rank"] for hit in body["hits"]] == list(range(1, len(body["hits"]) + 1))
    assert body["degraded"] == []
    assert body["collection"] == "demo@1"
    assert body["pipeline"]["name"] == pipeline
    scores = [hit["score"] for hit in body["hits"]]
    assert scores == sorted(scores, reverse=True)


async def test_timings_are_by_stage_in_the_body_and_in_the_header(stack: Stack) -> None:
    answer = await stack.search("fruit trees", include=["text"])
    timings = answer.json()["timings_ms"]
    stages = {"bm25", "dense", "fuse", "rerank", "include"}
    assert {name for name in timings if "." not in name} == {*stages, "total"}
    header = {part.split(";")[0] for part in answer.headers["server-timing"].split(", ")}
    assert header == {*stages, "wait", "total"}


async def test_timings_hold_what_each_service_reported_of_its_own_time(stack: Stack) -> None:
    timings = (await stack.search("fruit trees", include=["metadata"])).json()["timings_ms"]
    parted = {"bm25.wait", "dense.wait", "rerank.wait", "include.wait"}
    assert {name for name in timings if "." in name} == {*parted, "gateway.wait"}
    for stage in ("bm25", "dense", "rerank", "include"):
        parts = [ms for name, ms in timings.items() if name.startswith(f"{stage}.")]
        assert 0 <= sum(parts) < timings[stage], timings


async def test_the_log_of_every_service_names_the_request_id_of_the_answer(stack: Stack) -> None:
    lines: list[str] = []
    collector, logger = logging.Handler(), logging.getLogger("services.chassis.request_path")
    collector.setFormatter(JsonFormatter("any"))
    collector.emit = lambda record: lines.append(collector.format(record))  # type: ignore[method-assign]
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    try:
        body = (await stack.search("fruit trees", include=["metadata"])).json()
        stack.wires["reranker"].fault = "refused"
        await stack.search("fruit trees", "hybrid-rerank")
    finally:
        logger.removeHandler(collector)
    told = [line for line in map(json.loads, lines) if line["request_id"] == body["request_id"]]
    routes = Counter(line["route"].rpartition("/")[2] for line in told)
    assert routes == {"search": 3, "get": 2, "score": 1}  # the gateway's own and one of each retriever; texts twice
    assert all("stages_ms" in line for line in told)
    assert [line["degraded"] for line in map(json.loads, lines) if line.get("degraded")] == ["rerank: unreachable"]


async def test_a_failed_leg_has_a_time_and_no_parts(stack: Stack) -> None:
    stack.wires["dense"].fault = "status-500"
    timings = (await stack.search("fruit trees", "hybrid")).json()["timings_ms"]
    assert "dense" in timings
    assert not [name for name in timings if name.startswith("dense.")]
    assert "bm25.wait" in timings


async def test_a_stage_time_precedes_a_part_of_the_same_name(stack: Stack) -> None:
    stages = [{"kind": "retrieve", "id": name, "backend": "lexical"} for name in ("a", "a.wait")]
    stack.wires["lexical"].delay_s = 0.05
    timings = (await stack.search("fruit", inline({"kind": "fuse", "inputs": stages}))).json()["timings_ms"]
    assert timings["a.wait"] >= 50  # the part takes less than a millisecond
    assert timings["a.wait.wait"] < 50


async def test_stage_names_of_an_inline_pipeline_do_not_become_metric_labels(stack: Stack) -> None:
    await stack.search("fruit", inline({"kind": "retrieve", "id": "made-up", "backend": "lexical"}))
    metrics = (await stack.client.get("/metrics")).text
    assert "made-up" not in metrics
    assert 'stage_seconds_count{stage="retrieve"} 1.0' in metrics


async def test_both_retrievers_are_asked_at_once(stack: Stack) -> None:
    for name in ("lexical", "dense"):
        stack.wires[name].delay_s = 0.6
    started = time.monotonic()
    assert (await stack.search("fruit", "hybrid", deadline_ms=5_000)).json()["degraded"] == []
    assert time.monotonic() - started < 1.1


async def test_hits_carry_what_was_asked_for_and_nothing_else(stack: Stack) -> None:
    plain = (await stack.search("yellow", "bm25")).json()["hits"][0]
    assert set(plain) == {"id", "rank", "score"}
    full = (await stack.search("yellow", "bm25", include=["title", "metadata"])).json()["hits"][0]
    assert (full["title"], full["metadata"]) == ("Banana", {"kind": "fruit"})
    assert "text" not in full


async def test_an_explanation_has_every_stage_that_saw_the_hit(stack: Stack) -> None:
    hits = (await stack.search("orange", "hybrid-rerank", explain=True)).json()["hits"]
    places = {hit["id"]: hit["stages"] for hit in hits}
    assert set(places["carrot"]) == {"bm25", "dense", "fuse", "rerank"}
    assert places["carrot"]["bm25"]["rank"] == 1
    assert "bm25" not in places["apple"]


async def test_candidates_are_what_every_stage_gave_with_the_scores_of_the_model(stack: Stack) -> None:
    body = (await stack.search("orange", "hybrid-rerank", top=1, explain="candidates")).json()
    candidates = body["candidates"]
    assert list(candidates) == ["bm25", "dense", "fuse", "rerank"]
    assert len(body["hits"]) == 1
    fused = [one["id"] for one in candidates["fuse"]["ranking"]]
    assert set(fused) == {one["id"] for leg in ("bm25", "dense") for one in candidates[leg]["ranking"]}
    assert set(candidates["rerank"]["model_scores"]) == {one["id"] for one in candidates["rerank"]["ranking"]}
    assert "model_scores" not in candidates["fuse"]
    assert body["hits"][0]["stages"]["fuse"]["rank"] == 1 + fused.index(body["hits"][0]["id"])


async def test_filter_and_excluded_ids_reach_every_leg(stack: Stack) -> None:
    fruit = {"all": [{"field": "kind", "op": "eq", "value": "fruit"}]}
    body = (await stack.search("fruit trees", "hybrid", filter=fruit, exclude_ids=["banana"])).json()
    assert ids(body) == ["apple"]


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
async def test_a_gone_reranker_leaves_the_fused_order_and_says_so(stack: Stack, fault: Fault, reason: str) -> None:
    stages = (await stack.client.get("/v1/pipelines/hybrid-rerank")).json()["pipeline"]["stages"]
    fused = ids((await stack.search("fruit trees", inline(*stages[:-1]))).json())
    stack.wires["reranker"].fault = fault
    answer = await stack.search("fruit trees", "hybrid-rerank")
    body = answer.json()
    assert ids(body) == fused
    assert [(d["stage"], d["reason"], d["done"], d["of"]) for d in body["degraded"]] == [("rerank", reason, 0, 5)]
    assert answer.elapsed.total_seconds() < PATIENCE_MS.get(fault, 1_000) / 1_000


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
async def test_a_gone_dense_service_leaves_text_search_reranked_and_says_so(
    stack: Stack, fault: Fault, reason: str
) -> None:
    # The same pipeline with text search on both legs: z-scores twice as large, and so the same order.
    pipeline = (await stack.client.get("/v1/pipelines/hybrid-rerank")).json()["pipeline"]
    fuse = pipeline["stages"][0]
    fuse["inputs"] = [fuse["inputs"][0], fuse["inputs"][0] | {"id": "again"}]
    reduced = ids((await stack.search("fruit trees", pipeline)).json())
    stack.wires["dense"].fault = fault
    answer = await stack.search("fruit trees", "hybrid-rerank")
    assert ids(answer.json()) == reduced
    assert [(d["stage"], d["reason"]) for d in answer.json()["degraded"]] == [("dense", reason)]
    assert answer.elapsed.total_seconds() < PATIENCE_MS.get(fault, 1_000) / 1_000


@pytest.mark.parametrize(("fault", "reason"), FAULTS)
async def test_a_gone_lexical_service_takes_reranking_and_texts_with_it_and_says_so(
    stack: Stack, fault: Fault, reason: str
) -> None:
    dense = ids((await stack.search("fruit trees", "dense")).json())
    stack.wires["lexical"].fault = fault
    answer = await stack.search("fruit trees", "hybrid-rerank", include=["text"])
    body = answer.json()
    assert ids(body) == dense
    assert [(d["stage"], d["reason"]) for d in body["degraded"]] == [
        ("bm25", reason),
        ("rerank", "no_document_store"),
        ("include", "no_document_store"),
    ]
    assert "text" not in body["hits"][0]
    assert answer.elapsed.total_seconds() < PATIENCE_MS.get(fault, 1_000) / 1_000


@pytest.mark.parametrize(("fault", "_"), FAULTS)
async def test_without_any_retriever_the_search_is_refused_in_time(stack: Stack, fault: Fault, _: str) -> None:
    stack.wires["lexical"].fault = stack.wires["dense"].fault = fault
    answer = await stack.search("fruit trees", "hybrid-rerank")
    assert answer.status_code == (429 if fault == "overloaded" else 503)
    assert "retry-after" in answer.headers
    assert "bm25" in answer.json()["detail"]
    assert answer.elapsed.total_seconds() < PATIENCE_MS.get(fault, 1_000) / 1_000


async def test_a_rerank_that_must_not_fail_fails_the_search(stack: Stack) -> None:
    stack.wires["reranker"].fault = "refused"
    answer = await stack.search("fruit", inline(RETRIEVES[0], {"kind": "rerank", "on_failure": "fail"}))
    assert answer.status_code == 503


async def test_a_leg_that_must_not_fail_fails_the_search_at_once(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    stack.wires["lexical"].delay_s = 2.0
    fuse = {"kind": "fuse", "inputs": [RETRIEVES[0], {**RETRIEVES[1], "on_failure": "fail"}]}
    answer = await stack.search("fruit", inline(fuse), deadline_ms=3_000)
    assert answer.status_code == 503
    assert answer.elapsed.total_seconds() < 1.5


async def test_a_deadline_too_short_for_any_call_is_a_504(stack: Stack) -> None:
    assert (await stack.search("fruit", deadline_ms=1)).status_code == 504


async def test_short_deadlines_of_one_caller_close_nothing_to_others(stack: Stack) -> None:
    stack.wires["reranker"].delay_s = 1.2
    answers = await asyncio.gather(*[stack.search("fruit", deadline_ms=1_000) for _ in range(8)])
    assert {answer.json()["degraded"][0]["reason"] for answer in answers} == {"timeout"}
    assert (await stack.search("fruit", deadline_ms=5_000)).json()["degraded"] == []


async def test_a_backend_that_was_set_aside_is_back_within_five_seconds_of_its_return(stack: Stack) -> None:
    stack.wires["dense"].fault = "refused"
    for _ in range(6):
        await stack.search("fruit")
    detail = (await stack.search("fruit")).json()["degraded"][0]["detail"]
    assert "not asked" in detail
    assert 'breakers_opened_total{backend="dense"} 1.0' in (await stack.client.get("/metrics")).text
    stack.wires["dense"].fault = None
    returned = time.monotonic()
    while (await stack.search("fruit")).json()["degraded"]:
        assert time.monotonic() - returned < 5.0


@pytest.mark.parametrize("fault", ["refused", "status-503"])
async def test_one_lost_connection_is_repeated_and_never_seen(stack: Stack, fault: Fault) -> None:
    stack.wires["dense"].fault, stack.wires["dense"].faults_left = fault, 1
    assert (await stack.search("fruit", "dense")).status_code == 200


async def test_a_timeout_is_never_repeated(stack: Stack) -> None:
    stack.wires["dense"].fault, stack.wires["dense"].faults_left = "hung", 1
    assert (await stack.search("fruit", "dense", deadline_ms=1_000)).status_code == 503


async def test_degradations_are_counted(stack: Stack) -> None:
    stack.wires["reranker"].fault = "refused"
    await stack.search("fruit")
    metrics = (await stack.client.get("/metrics")).text
    assert 'degraded_total{reason="unreachable",stage_kind="rerank"} 1.0' in metrics


async def test_a_document_that_the_store_lacks_stays_beneath_and_is_flagged(stack: Stack) -> None:
    del stack.lexical.generations["demo@1"].documents["tree"]
    body = (await stack.search("fruit trees", "hybrid-rerank", include=["title"])).json()
    assert ids(body)[-1] == "tree"
    assert {(d["stage"], d["reason"], d["done"], d["of"]) for d in body["degraded"]} == {
        ("rerank", "no_document_store", 4, 5),
        ("include", "no_document_store", 4, 5),
    }


async def test_a_search_goes_on_over_the_next_generation_when_the_live_one_vanishes(stack: Stack) -> None:
    # Another gateway re-indexes: this one still believes in demo@1.
    for store in (stack.lexical, stack.dense):
        held = store.generations.pop("demo@1")
        store.generations["demo@2"] = held
    body = (await stack.search("fruit trees")).json()
    assert body["collection"] == "demo@2"
    assert body["degraded"] == []


async def test_a_collection_that_is_still_being_built_cannot_be_searched() -> None:
    async with opened_stack(ingested=False) as stack:
        await stack.client.put("/v1/collections/demo", json=DECLARATION)
        answer = await stack.search("fruit")
        assert answer.status_code == 404
        assert "publish" in answer.json()["detail"]


async def test_nobody_can_say_what_is_unknown_while_a_store_has_never_answered() -> None:
    async with opened_stack(ingested=False, faults={"dense": "refused"}) as stack:
        answer = await stack.search("fruit")
        assert answer.status_code == 503
        assert "dense" in answer.json()["detail"]
        stack.wires["dense"].fault = None
        assert (await stack.search("fruit")).status_code == 404


async def test_degraded_searches_are_counted_once_and_a_backend_set_aside_is_shown(stack: Stack) -> None:
    stack.wires["reranker"].fault = stack.wires["dense"].fault = "refused"
    for _ in range(6):
        await stack.search("fruit")
    metrics = (await stack.client.get("/metrics")).text
    assert 'degraded_searches_total{collection="demo",pipeline="hybrid-rerank"} 6.0' in metrics
    assert 'breakers_open{backend="dense"} 1.0' in metrics
    assert 'breakers_open{backend="lexical"} 0.0' in metrics
    assert re.search(r'backend_failures_total\{backend="dense",reason="unreachable",work="read"\} [1-9]', metrics)


def test_collections_after_the_first_fifty_share_their_series() -> None:
    instruments = GatewayInstruments()
    for number in range(2 * MOST_COLLECTIONS):
        instruments.observe_search(0.1, "bm25", f"made-{number}", "", "", degraded=True)
    text = instruments.exposition().decode()
    for family in ("search_seconds_count", "degraded_searches_total"):
        collections = re.findall(rf'^{family}{{.*collection="([^"]*)"', text, re.MULTILINE)
        assert len(collections) == MOST_COLLECTIONS + 1
        assert "other" in collections
