"""CPU time and memory of named processes while a load runs, read from their /metrics over real sockets."""

import asyncio
import time
from pathlib import Path

import pytest
from fastapi import FastAPI, Request, Response
from starlette.middleware.base import RequestResponseEndpoint
from typer.testing import CliRunner

from evaluator.analyses.analysing import analyse
from evaluator.analyses.paper_tables import served_tables
from evaluator.cli import app
from evaluator.client.client import connected
from evaluator.evaluation import evaluate, ingest_step
from evaluator.load.sending.process_watch import MEMORY, watching
from evaluator.load.statistics.memory_trend import MemoryReading, memory_trends
from evaluator.load.step import load_step
from evaluator.machine.process_costs import STARTED_ANEW, ProcessCost
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.steps.ingest import IngestReport
from evaluator.steps.pipeline_costs import pipeline_costs
from evaluator.steps.prepared_run import prepare_run
from retrieval_client import BackendLoad
from tests.support.around import around
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import planned


async def test_a_point_has_its_cost_by_process_and_its_gate_is_judged_by_it(tmp_path: Path) -> None:
    traffic = {"rates": [20], "seconds": 0.5, "warmup_seconds": 0.2}
    experiment = planned(tmp_path, load=traffic, pipelines=["bm25"], gates={"cpu_ms": 1_000})
    folder = RunFolder.create(tmp_path / "runs", experiment)
    with served(GatewayStub().app) as url:
        async with connected(url) as client:
            await ingest_step(client, folder)
            report = await load_step(client, folder, processes={"gateway": url})
    (point,) = report.points
    assert point.cost is not None
    assert point.cost.queries == point.counts.requests + point.warmup
    assert point.cost.lost == 0
    assert 0.1 < (point.cost.cpu_ms or 0) < 1_000
    assert (point.cost.processes["gateway"].memory_bytes or 0) > 10_000_000
    assert [gate.value for gate in report.gates] == [point.cost.cpu_ms]
    lines = (folder.path / MEMORY).read_text(encoding="utf-8").splitlines()
    first = MemoryReading.model_validate_json(lines[0])
    assert report.memory == memory_trends([MemoryReading.model_validate_json(line) for line in lines])
    assert report.memory["gateway"].first_bytes == first.memory_bytes["gateway"]
    assert str(MEMORY) in report.made_from
    page = (folder.path / "load.md").read_text(encoding="utf-8")
    assert "## Cost" in page


async def test_an_analysis_shows_what_queries_documents_and_processes_cost(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"]))
    with served(GatewayStub().app) as url:
        async with connected(url) as client:
            report = await evaluate(client, folder, processes={"gateway": url})
    assert report.ingest is not None
    assert report.ingest.costs["gateway"].cpu_ms is not None
    (of_set,) = analyse([folder.name], folder.runs).sets
    figures, (process,) = of_set.pipelines["bm25"].served, of_set.processes
    outcome = report.pipelines["bm25"]
    assert figures is not None
    assert outcome.cost is not None
    assert (figures.p50_ms, figures.cpu_ms) == (outcome.latency_ms.p50.unchecked_ms, outcome.cost.cpu_ms)
    assert figures.index_bytes == outcome.index_bytes
    assert process.process == "gateway"
    assert process.cpu_ms_a_document == report.ingest.cpu_ms_a_document("gateway")
    assert (process.memory_bytes or 0) > 10_000_000
    tables = {table.name: table for table in served_tables(analyse([folder.name], folder.runs))}
    p50 = figures.p50_ms if report.times_hold else outcome.latency_ms.p50.cell()
    assert tables["table-3-served"].rows[0][:3] == (of_set.name, "bm25", p50)
    assert tables["table-3-processes"].rows[0][2] == "gateway"


def test_documents_that_were_there_already_have_no_cost() -> None:
    cost = {"dense": ProcessCost(cpu_ms=40.0, memory_bytes=None)}
    loaded = IngestReport(
        collection="c", generation="c@1", created=True, documents=4, batches=1, retries=0, stripped_characters=0,
        backends={"dense": BackendLoad(indexed=4)}, vectors={}, seconds=1.0, costs=cost,
    )  # fmt: skip
    assert loaded.cpu_ms_a_document("dense") == 10.0
    assert loaded.cpu_ms_a_document("lexical") is None
    again = loaded.model_copy(update={"backends": {"dense": BackendLoad(indexed=1, unchanged=3)}})
    assert again.cpu_ms_a_document("dense") is None


@pytest.mark.parametrize(("caches", "sent"), [(False, {"no-store"}), (True, {None})])
async def test_the_cost_of_a_pipeline_is_measured_with_caches_where_its_times_are(
    tmp_path: Path, caches: bool, sent: set[str | None]
) -> None:
    service, asked = GatewayStub().app, set[str | None]()

    @around(service)
    async def keep_cache_control(request: Request, answer: RequestResponseEndpoint) -> Response:
        if request.url.path.endswith("/search"):
            asked.add(request.headers.get("cache-control"))
        return await answer(request)

    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, caches=caches))
    with served(service) as url:
        async with connected(url) as client:
            await ingest_step(client, folder)
            ready = await prepare_run(client, folder)
            asked.clear()
            experiment, queries = folder.experiment, ready.queries.measured
            await pipeline_costs(client, experiment, ready.dataset, queries[:2], ready.arms[:1], {"gateway": url})
    assert asked == sent


async def test_a_load_without_named_processes_leaves_no_readings_of_an_earlier_one(tmp_path: Path) -> None:
    writable(tmp_path / MEMORY).write_text("of an earlier load", encoding="utf-8")
    async with watching({}, tmp_path) as watch:
        assert await watch.ended() == ()
    assert not (tmp_path / MEMORY).exists()


def restarting_service(restart_after: int) -> FastAPI:
    """Returns a service that tells of another process after so many readings, and cannot be read at one between."""
    service, seen = FastAPI(), iter(range(1_000))

    @service.get("/metrics")
    def metrics() -> Response:
        number = next(seen)
        start = 100 if number < restart_after else 200
        text = f"process_cpu_seconds_total {number}\nprocess_start_time_seconds {start}\n"
        text += f"process_resident_memory_bytes {1_000_000 + number}\n"
        return Response(text, status_code=503 if number == restart_after else 200)

    return service


def wait_for_lines(file: Path, lines: int) -> None:
    until = time.monotonic() + 30
    while time.monotonic() < until and (not file.exists() or len(file.read_text().splitlines()) < lines):
        time.sleep(0.01)


async def test_memory_is_read_again_and_again_and_a_process_that_was_started_anew_is_noticed(tmp_path: Path) -> None:
    with served(restarting_service(3)) as url:
        async with watching({"dense": url}, tmp_path, every_s=0.01) as watch:
            await asyncio.to_thread(wait_for_lines, tmp_path / MEMORY, 8)
            readings = await watch.ended()
    assert [one.started_anew for one in readings[:6]] == [(), (), (), (), ("dense",), ()]
    assert [one.memory_bytes["dense"] for one in readings[:5]] == [1_000_000, 1_000_001, 1_000_002, None, 1_000_004]
    assert memory_trends(readings)["dense"].reason == STARTED_ANEW
    written = [MemoryReading.model_validate_json(line) for line in (tmp_path / MEMORY).read_text().splitlines()]
    assert tuple(written) == readings


@pytest.mark.parametrize("other", [["--against", "http://127.0.0.1:9"], ["--export", "x"]])
def test_processes_are_refused_where_nothing_measures_them(other: list[str], tmp_path: Path) -> None:
    planned(tmp_path)
    words = ["load", "demo", "--dataset", str(tmp_path / "shop"), "--runs", str(tmp_path), "--rate", "5", *other]
    done = CliRunner().invoke(app, [*words, "--processes", "dense=http://127.0.0.1:9"])
    assert done.exit_code == 2
    assert "--processes: neither --against nor --export measures a process" in done.output.replace("\n", " ")
