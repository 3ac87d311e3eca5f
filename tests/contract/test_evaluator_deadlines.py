"""The deadline sweep against a stub of the gateway, in one process."""

import asyncio
import itertools
import os
import re
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import typer
from fastapi import Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from evaluator.client.client import connected
from evaluator.commands.deadlines import print_deadlines
from evaluator.deadlines.sweep import DeadlinesFile, deadlines_step
from evaluator.evaluation import ingest_step
from evaluator.machine.measured_processes import record_stack
from evaluator.runs.run_folder import RunFolder
from services.chassis.errors import Unavailable
from tests.support.around import around
from tests.support.gateway_stub import GatewayStub
from tests.support.machine_counters import CountedMachine
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


async def test_a_part_of_the_sweep_on_a_busy_machine_makes_its_times_invalid(tmp_path: Path) -> None:
    machine = CountedMachine(tmp_path / "machine")
    calls = itertools.count()

    def clock() -> float:
        """Lets 5 s pass at each call; others take both cores for a tenth of the calls, 9 % of the whole."""
        machine.pass_time(5.0, other=0.9 if 20 <= next(calls) < 28 else 0.0)
        return machine.now_s

    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"]))
    record_stack(tmp_path / "runs", "http://localhost", os.getpid())
    deadlines_ms = range(30_000, 30_010)
    async with reached(GatewayStub()) as client:
        await ingest_step(client, folder)
        found = await deadlines_step(client, folder, deadlines_ms, replace(machine.counters, clock=clock))
    assert found.conditions.foreign is not None
    assert 0.05 < found.conditions.foreign < 0.10
    (reason,) = found.timing_reasons
    assert re.match(r"in \d of 4\d windows of 5 s other processes", reason)
    assert not found.timing_valid


async def test_a_lost_query_counts_with_the_time_that_passed_where_it_is_longer_than_the_deadline(
    tmp_path: Path,
) -> None:
    app = GatewayStub(failing_queries=dict.fromkeys(MEASURED, Unavailable("gone"))).app

    @around(app)
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


async def test_times_that_are_not_valid_are_marked_and_end_the_command_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = await swept(GatewayStub(), tmp_path, 30_000)
    folder = RunFolder(RunFolder.newest(tmp_path / "runs"))
    print_deadlines(folder, found.model_copy(update={"timing_valid": True, "timing_reasons": ()}))
    assert "?" not in capsys.readouterr().out
    with pytest.raises(typer.Exit) as ended:
        print_deadlines(folder, found.model_copy(update={"timing_valid": False, "timing_reasons": ("busy",)}))
    assert ended.value.exit_code == 3
    told = capsys.readouterr()
    row = [line.split("|")[1:-1] for line in told.out.splitlines() if line.startswith("| ")][2]
    assert [cell.strip()[-1] for cell in row[-3:]] == ["?"] * 3
    assert "**Times: marked with ?, because busy**" in told.out
    assert "Exit status 3: times are not valid." in told.err
