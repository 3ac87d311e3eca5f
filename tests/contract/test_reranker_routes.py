"""The re-ranker over HTTP."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.types import Message

from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.requests.telemetry import WATCHES
from services.contracts.rerank import ScoreRequest
from services.inference.pair_scorer import PairScorer
from services.reranker.app import build_app, open_scorer
from services.reranker.routes import score_router
from services.reranker.settings import RerankerSettings
from tests.support.models import CROSS_ENCODER, fetched
from tests.support.opened_client import opened_client


@pytest.fixture
async def client():
    async with opened_client(build_app(RerankerSettings(scorer="overlap"))) as client:
        yield client


async def test_scores_come_in_the_order_sent_with_the_model_and_its_weight(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/score", json={"query": "red bicycle", "passages": ["a red bicycle", "a car", ""]})
    assert answer.json() == {"model": "overlap@000000000000", "weight": 0.5, "scores": [1.0, 0.0, 0.0]}
    assert "score;dur=" in answer.headers["server-timing"]


@pytest.mark.parametrize(
    "body",
    [
        {"query": "a", "passages": []},
        {"query": "a", "passages": ["b"] * 1001},
        {"query": "", "passages": ["b"]},
        {"query": "a\u0000", "passages": ["b"]},
        {"query": "a", "passages": [1]},
        {"query": "a"},
        {"query": "a", "passages": ["b"], "split": {"tokens": 8}},
        {"query": "a", "passages": ["b"], "split": {"tokens": 32, "overlap": 17}},
        {"query": "a", "passages": ["b"], "title_lengths": [1]},
        {"query": "a", "passages": ["b"], "split": {"tokens": 32}, "title_lengths": [1, 1]},
    ],
)
async def test_what_cannot_be_scored_is_a_422(client: httpx.AsyncClient, body: dict[str, object]) -> None:
    assert (await client.post("/v1/score", json=body)).status_code == 422


@pytest.mark.parametrize("partial", [False, True])
async def test_long_passages_are_scored_by_their_best_part(client: httpx.AsyncClient, partial: bool) -> None:
    long = "car " * 40 + "a bicycle"
    body = {"query": "red bicycle", "passages": [f"red {long}"], "partial": partial}
    split = {**body, "split": {"tokens": 16, "overlap": 4}}
    titled = {**split, "title_lengths": [3]}
    answers = [(await client.post("/v1/score", json=one)).json()["scores"] for one in (body, split, titled)]
    assert answers == [[1.0], [0.5], [1.0]]


async def test_where_part_of_the_scores_will_do_there_is_no_error_without_time(client: httpx.AsyncClient) -> None:
    body = {"query": "red bicycle", "passages": ["a red bicycle", "a car"]}
    hurried = {"x-deadline-ms": "5"}  # less than the way back takes
    partial = await client.post("/v1/score", json={**body, "partial": True}, headers=hurried)
    assert (partial.status_code, partial.json()["scores"]) == (200, [None, None])
    assert (await client.post("/v1/score", json={**body, "partial": True})).json()["scores"] == [1.0, 0.0]


async def test_a_score_given_before_is_remembered_and_the_answer_says_so() -> None:
    async with opened_client(build_app(RerankerSettings(scorer="overlap", score_cache_mb=1))) as client:
        first = await client.post("/v1/score", json={"query": "red", "passages": ["a red bicycle", "a car"]})
        again = await client.post("/v1/score", json={"query": "red", "passages": ["a bus", "a red bicycle", "a car"]})
        other = await client.post("/v1/score", json={"query": "car", "passages": ["a red bicycle", "a car"]})
        fresh = await client.post(
            "/v1/score", json={"query": "red", "passages": ["a car"]}, headers={"cache-control": "no-store"}
        )
        metrics = (await client.get("/metrics")).text
    assert [one.headers.get("x-cached-results") for one in (first, again, other, fresh)] == ["0/2", "2/3", "0/2", None]
    assert again.json()["scores"] == [0.0, 1.0, 0.0]
    assert fresh.json()["scores"] == [0.0]
    assert 'cached_results_total{outcome="hit"} 2.0' in metrics
    assert 'cached_results_total{outcome="miss"} 5.0' in metrics


async def test_what_a_vanished_caller_asked_for_is_not_scored() -> None:
    scorer = open_scorer(RerankerSettings(models=fetched(CROSS_ENCODER).parent, threads=1))
    assert isinstance(scorer, PairScorer)
    workers = scorer._model._workers

    @asynccontextmanager
    async def opened():
        yield (score_router(scorer),), None

    app = create_app("reranker", RerankerSettings(), Instruments(), opened)
    body = ScoreRequest(query="why does my chain slip", passages=("a worn cassette " * 90,) * 60)
    leaving: list[Any] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": body.model_dump_json().encode()}

    async def send(message: Message) -> None:
        answers.append(message)

    answers: list[Message] = []
    scope = {
        "type": "http", "method": "POST", "path": "/v1/score", "raw_path": b"/v1/score", "query_string": b"",
        "headers": [(b"content-type", b"application/json")], "http_version": "1.1", "scheme": "http",
        WATCHES: leaving.append,
    }  # fmt: skip
    async with app.router.lifespan_context(app):
        asking = asyncio.create_task(app(scope, receive, send))
        async with asyncio.timeout(30):
            while workers.pending < 20:  # noqa: ASYNC110  # of 30 micro-batches the first ones have begun
                await asyncio.sleep(0.01)
        leaving[0]()
        await asking
        assert workers.pending == 0
    assert answers[0]["status"] == 499
    await scorer.close()
