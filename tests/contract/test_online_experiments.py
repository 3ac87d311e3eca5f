"""Experiments as pipelines: who is answered by what, what replaces a failing arm, and what the journal keeps of it."""

import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from gateway.search.plan import PipelineError
from retrieval_client import RetrievalError
from services.contracts.online import Event, EventPosition, Exposure
from tests.support.backends import Stack, opened_stack
from tests.support.client_subjects import ClientKind, subject

PIPELINES = Path(__file__).parents[2] / "gateway" / "pipelines"
BM25_ONLY = "{name: bm25, stages: [{kind: retrieve, id: bm25, backend: lexical}]}"
DENSE_ONLY = "{name: dense, stages: [{kind: retrieve, id: dense, backend: dense}]}"
SPLIT = "{name: shop, experiment: {arms: {bm25: 50, dense: 50}, salt: winter}}"
INTERLEAVED = "{name: shop, experiment: {arms: {bm25: 1, dense: 1}, salt: winter, mode: interleave}}"
# Units of the arms of SPLIT, the same everywhere.
OF_BM25, OF_DENSE = "user-1", "user-2"


@asynccontextmanager
async def shop(tmp_path: Path, experiment: str = SPLIT, *, journal: bool = True) -> AsyncIterator[Stack]:
    pipelines = tmp_path / "pipelines"
    pipelines.mkdir()
    for name, text in (("bm25", BM25_ONLY), ("dense", DENSE_ONLY), ("shop", experiment)):
        (pipelines / f"{name}.yaml").write_text(text)
    async with opened_stack(pipelines=pipelines, journal=tmp_path / "journal" if journal else None) as stack:
        yield stack


async def search(stack: Stack, unit: str | None, **body: object) -> httpx.Response:
    deadline = {"x-deadline-ms": str(body.pop("deadline_ms", 2_500))}
    headers = deadline if unit is None else {**deadline, "x-unit-id": unit}
    asked = {"query": "fruit", "pipeline": "shop", **body}
    return await stack.client.post("/v1/collections/demo/search", json=asked, headers=headers)


def exposures(tmp_path: Path) -> list[Exposure]:
    files = sorted((tmp_path / "journal").glob("ubi_queries*"))
    return [Exposure.model_validate_json(line) for file in files for line in file.read_bytes().splitlines()]


async def test_a_unit_is_answered_by_its_arm_and_the_journal_keeps_what_it_saw(tmp_path: Path) -> None:
    async with shop(tmp_path) as stack:
        bodies = [(await search(stack, unit)).json() for unit in (OF_BM25, OF_DENSE, OF_DENSE)]
    assert [body["pipeline"]["name"] for body in bodies] == ["bm25", "dense", "dense"]
    assert [body["experiment"] for body in bodies] == [
        {"name": "shop", "arm": arm} for arm in ("bm25", "dense", "dense")
    ]
    kept = exposures(tmp_path)
    assert [line.query_id for line in kept] == [body["request_id"] for body in bodies]
    assert [list(line.query_response_hit_ids) for line in kept] == [
        [hit["id"] for hit in body["hits"]] for body in bodies
    ]
    seen = kept[1].query_attributes
    assert (seen.arm, seen.shares, seen.collection, seen.degraded) == (
        "dense",
        {"bm25": 0.5, "dense": 0.5},
        "demo",
        False,
    )


async def test_logs_and_metrics_name_experiment_and_arm_and_what_callers_make_up_is_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "services.chassis.request_path")
    made_up = {"name": "made-up", "stages": [{"kind": "retrieve", "backend": "lexical"}]}
    async with shop(tmp_path) as stack:
        caplog.clear()
        await search(stack, OF_DENSE)
        await search(stack, OF_DENSE, pipeline=made_up)
        metrics = (await stack.client.get("/metrics")).text
    logged = [vars(record) for record in caplog.records if getattr(record, "route", "").endswith("{collection}/search")]
    names = [tuple(line[label] for label in ("pipeline", "collection", "experiment", "arm")) for line in logged]
    assert names == [("dense", "demo", "shop", "dense"), ("other", "demo", "", "")]
    for pipeline, collection, experiment, arm in names:
        labels = f'arm="{arm}",collection="{collection}",experiment="{experiment}",pipeline="{pipeline}"'
        assert f"search_seconds_count{{{labels}}} 1.0" in metrics
    assert "made-up" not in metrics


async def test_without_a_unit_or_after_the_end_the_first_arm_answers_outside_and_is_counted(tmp_path: Path) -> None:
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date()
    ended = SPLIT.replace("winter", f"winter, ends: {yesterday}")
    async with shop(tmp_path, ended) as stack:
        for unit in (None, OF_DENSE):
            body = (await search(stack, unit)).json()
            assert (body["pipeline"]["name"], body.get("experiment")) == ("bm25", None)
        metrics = (await stack.client.get("/metrics")).text
    assert 'searches_outside_experiments_total{experiment="shop"} 2.0' in metrics
    assert exposures(tmp_path) == []


async def test_a_failing_arm_falls_back_flagged_and_stays_the_units_arm(tmp_path: Path) -> None:
    async with shop(tmp_path) as stack:
        stack.wires["dense"].fault = "refused"
        body = (await search(stack, OF_DENSE)).json()
        assert [(flag["stage"], flag["done"]) for flag in body["degraded"]] == [("experiment", 0)]
        assert (body["pipeline"]["name"], body["experiment"]["arm"]) == ("bm25", "dense")
        stack.wires["lexical"].fault = "refused"
        assert (await search(stack, OF_BM25)).status_code == 503
        assert (await search(stack, OF_BM25, sort="unknown", top=-1)).status_code == 422
    fallen, failed = (line.query_attributes for line in exposures(tmp_path))
    assert (fallen.arm, fallen.failed, fallen.degraded) == ("dense", {"dense": "unavailable"}, True)
    assert (failed.arm, failed.error) == ("bm25", "unavailable")


async def test_an_interleaving_names_teams_and_its_pages_are_those_of_a_longer_answer(tmp_path: Path) -> None:
    async with shop(tmp_path, INTERLEAVED) as stack:
        whole = (await search(stack, "user-7", query="red root fruit trees", top=5)).json()
        pages = [
            (await search(stack, "user-7", query="red root fruit trees", top=2, offset=at)).json() for at in (0, 2)
        ]
        explained = (await search(stack, "user-7", explain=True)).json()
        metrics = (await stack.client.get("/metrics")).text
    assert (whole["pipeline"]["name"], whole["experiment"]) == ("shop", {"name": "shop"})
    assert {hit.get("team") for hit in whole["hits"]} <= {"bm25", "dense", None}
    hits = [(hit["id"], hit.get("team")) for hit in whole["hits"]]
    assert [(hit["id"], hit.get("team")) for page in pages for hit in page["hits"]] == hits[:4]
    assert pages[0]["page"]["more"]
    assert explained["pipeline"]["name"] == "bm25"
    assert "experiment" not in explained
    assert 'search_seconds_count{arm="",collection="demo",experiment="shop",pipeline="shop"} 3.0' in metrics
    first = exposures(tmp_path)[0].query_attributes
    assert (first.arm, list(first.teams or ())) == (None, [team for _, team in hits])


async def test_an_interleaving_without_one_arm_answers_by_the_other_flagged(tmp_path: Path) -> None:
    async with shop(tmp_path, INTERLEAVED) as stack:
        stack.wires["lexical"].fault = "status-500"
        body = (await search(stack, "user-7")).json()
        stack.wires["dense"].fault = "status-500"
        assert (await search(stack, "user-7")).status_code >= 500
    assert [flag["stage"] for flag in body["degraded"]] == ["experiment"]
    assert not any("team" in hit for hit in body["hits"])
    one, none = (line.query_attributes for line in exposures(tmp_path))
    assert (list(one.failed), one.teams, one.error) == (["bm25"], None, None)
    assert none.error is not None


class StopsTheLoop(list[httpx.Headers]):
    """Lets all limits of time pass at once, as a busy process may; that of the whole request then ends the search."""

    def append(self, headers: httpx.Headers) -> None:
        time.sleep(float(headers.get("x-deadline-ms", 0)) / 1_000 + 1.0)


async def test_a_search_that_is_cut_at_its_deadline_is_an_error_of_its_arm(tmp_path: Path) -> None:
    async with shop(tmp_path) as stack:
        stack.wires["lexical"].fault = "hung"
        stack.wires["lexical"].request_headers = StopsTheLoop()
        answer = await search(stack, OF_BM25, deadline_ms=1_000)
    assert (answer.status_code, answer.json()["detail"][:8]) == (504, "Not done")
    (cut,) = (line.query_attributes for line in exposures(tmp_path))
    assert (cut.arm, cut.error) == ("bm25", "deadline-exceeded")


@pytest.mark.parametrize("experiment", [SPLIT, INTERLEAVED])
async def test_an_arm_that_hangs_leaves_time_for_the_first_one_and_for_texts(tmp_path: Path, experiment: str) -> None:
    async with shop(tmp_path, experiment) as stack:
        stack.wires["dense"].fault = "hung"
        answer = await search(stack, OF_DENSE, include=["text"])
    assert answer.status_code == 200, answer.text
    assert [flag["stage"] for flag in answer.json()["degraded"]] == ["experiment"]
    assert all(hit["text"] for hit in answer.json()["hits"])
    assert exposures(tmp_path)[0].query_attributes.failed == {"dense": "unavailable"}


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        ("{name: shop, experiment: {arms: {bm25: 1, gone: 1}, salt: s}}", "'gone' is no pipeline here"),
        ("{name: shop, experiment: {arms: {bm25: 1, shop: 1}, salt: s}}", "'shop' is no pipeline here"),
        ("{name: shop, experiment: {arms: {bm25: 1}, salt: s}}", "arms"),
        ("{name: shop, stages: [], experiment: {arms: {bm25: 1, dense: 1}, salt: s}}", "stages"),
    ],
)
async def test_a_file_that_is_no_experiment_stops_the_gateway(tmp_path: Path, experiment: str, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        async with shop(tmp_path, experiment):
            pass


async def test_an_experiment_needs_a_journal(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="GATEWAY_JOURNAL"):
        async with shop(tmp_path, journal=False):
            pass


async def test_lists_and_views_tell_pipelines_from_experiments(tmp_path: Path) -> None:
    async with shop(tmp_path) as stack:
        listed = (await stack.client.get("/v1/pipelines")).json()
        assert [view["name"] for view in listed["pipelines"]] == ["bm25", "dense"]
        assert [each["name"] for each in listed["experiments"]] == ["shop"]
        view = await stack.client.get("/v1/pipelines/shop")
        assert view.status_code == 404
        assert "its pipelines are bm25, dense" in view.json()["detail"]
        refused = await search(stack, "two words")
        assert refused.status_code == 422
        assert json.dumps(refused.json()).count("X-Unit-Id") > 0


@pytest.mark.parametrize("kind", ["blocking", "awaiting"])
async def test_the_client_searches_for_a_unit_and_sends_what_it_did_once_more_where_nothing_was_heard(
    tmp_path: Path, kind: ClientKind
) -> None:
    async with shop(tmp_path) as stack:
        transport = LosesAnswers(stack.app)
        async with subject(kind, transport) as client:
            answer = await client.call("search", "demo", "fruit", pipeline="shop", unit=OF_DENSE)
            click = {"query_id": answer.request_id, "client_id": OF_DENSE, "action_name": "click", "position": 1}
            transport.loses = 1
            await client.call("send_events", [{**click, "object_id": answer.hits[0].id}])
            with pytest.raises(RetrievalError, match="no blanks"):
                await client.call("search", "demo", "fruit", pipeline="shop", unit="two words")
    assert (answer.experiment.name, answer.experiment.arm) == ("shop", "dense")
    lines = [line for file in (tmp_path / "journal").glob("ubi_events*") for line in file.read_bytes().splitlines()]
    first, again = (Event.model_validate_json(line) for line in lines)
    assert first.event_attributes == again.event_attributes
    assert first.event_attributes.position == EventPosition(ordinal=1)


class LosesAnswers(httpx.ASGITransport):
    """Loses the answers of the next requests."""

    loses = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await super().handle_async_request(request)
        if self.loses:
            self.loses -= 1
            raise httpx.ReadError("lost", request=request)
        return answer
