"""The deadline sweep against a stub of the gateway, in one process."""

import asyncio
from pathlib import Path

import httpx
from fastapi import Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from evaluator.client import connected
from evaluator.deadline_sweep import DeadlinesFile
from evaluator.deadlines_step import deadlines_step
from evaluator.evaluation import ingest_step
from evaluator.run_folder import RunFolder
from services.chassis.errors import Unavailable
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import planned, reached

MEASURED = {"red bell", "oil chain", "steel", "saddle springs squeak"}


async def swept(stub: GatewayStub, tmp_path: Path, deadline_ms: int, **given: object) -> DeadlinesFile:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"], **given))
    async with reached(stub) as client:
        await ingest_step(client, folder)
        return await deadlines_step(client, folder, [deadline_ms])


async def test_the_sweep_asks_for_as_many_hits_as_timed_requests_do_and_says_how_many(tmp_path: Path) -> None:
    stub = GatewayStub()
    found = await swept(stub, tmp_path, 30_000, depth=50, top=3)
    assert found.timed_top == 3
    assert {request.top for request in stub.searches if request.query in MEASURED} == {3}


async def test_a_lost_query_counts_with_the_time_that_passed_where_it_is_longer_than_the_deadline(
    tmp_path: Path,
) -> None:
    app = GatewayStub(failing_queries=dict.fromkeys(MEASURED, Unavailable("gone"))).app

    @app.middleware("http")
    async def answer_late(request: Request, answer: RequestResponseEndpoint) -> Response:
        await asyncio.sleep(0.3 * request.url.path.endswith("/search"))
        return await answer(request)

    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"]))
    async with (
        app.router.lifespan_context(app),
        connected("http://gateway", httpx.ASGITransport(app=app)) as client,
    ):
        await ingest_step(client, folder)
        found = await deadlines_step(client, folder, [200])
    (figures,) = found.pipelines[0].deadlines
    assert (figures.lost, figures.errors_by_kind) == (4, {"unavailable": 4})
    assert 300 <= figures.p50_ms <= figures.p95_ms
