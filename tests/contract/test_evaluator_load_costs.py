"""CPU time and memory of named processes while a load runs, read from their /metrics over real sockets."""

from pathlib import Path

import pytest
from fastapi import Request, Response
from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.analyses.analysing import analyse
from evaluator.analyses.paper_tables import served_tables
from evaluator.client.client import connected
from evaluator.load.load_step import load_step
from evaluator.machine.process_costs import ProcessCost
from evaluator.report.evaluation import evaluate, ingest_step
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.ingest import IngestReport
from evaluator.steps.pipeline_costs import pipeline_costs
from evaluator.steps.prepared_run import prepare_run
from retrieval_client.loading import BackendLoad
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import planned


@pytest.fixture(autouse=True)
def _short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evaluator.steps.pipeline_costs.LEAST_BLOCK_S", 0.1)


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

    async def keep_cache_control(request: Request, answer: RequestResponseEndpoint) -> Response:
        if request.url.path.endswith("/search"):
            asked.add(request.headers.get("cache-control"))
        return await answer(request)

    assert service.middleware_stack is not None
    service.middleware_stack = BaseHTTPMiddleware(service.middleware_stack, dispatch=keep_cache_control)
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, caches=caches))
    with served(service) as url:
        async with connected(url) as client:
            await ingest_step(client, folder)
            ready = await prepare_run(client, folder)
            asked.clear()
            experiment, queries = folder.experiment, ready.queries.measured
            await pipeline_costs(client, experiment, ready.dataset, queries[:2], ready.arms[:1], {"gateway": url})
    assert asked == sent


@pytest.mark.parametrize("other", [["--against", "http://127.0.0.1:9"], ["--export", "x"]])
def test_processes_are_refused_where_nothing_measures_them(other: list[str], tmp_path: Path) -> None:
    planned(tmp_path)
    words = ["load", "demo", "--dataset", str(tmp_path / "shop"), "--runs", str(tmp_path), "--rate", "5", *other]
    done = CliRunner().invoke(app, [*words, "--processes", "dense=http://127.0.0.1:9"])
    assert done.exit_code == 2
    assert "--processes: neither --against nor --export measures a process" in done.output.replace("\n", " ")
