"""The demo in one process: our own collection through the real gateway and services, with models that count words."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from evaluator.client.client import GatewayClient, connected
from evaluator.comparison.comparing import ComparisonSettings, compare
from evaluator.experiments.experiment import Experiment, experiment_path, read_experiment
from evaluator.pages.markdown_page import render_markdown
from evaluator.report.evaluation import evaluate, ingest_step
from evaluator.report.report_page import report_blocks
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from gateway.app import build_app as build_gateway
from gateway.settings import DEFAULT_BACKENDS, BackendAddress, GatewaySettings
from services.dense.app import build_app as build_dense
from services.dense.settings import DenseSettings
from services.late_interaction.app import build_app as build_late
from services.late_interaction.settings import LateInteractionSettings
from services.lexical.app import build_app as build_lexical
from services.lexical.settings import LexicalSettings
from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.backends import FaultyTransport
from tests.support.wires import FixedEndpoints

Planned = Callable[..., Experiment]
QUERIES = 8
# One gateway for all: what runs leave there is the loaded collection, and caches where a run lets services use them.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayClient]:
    """A client of a gateway that has the collection."""
    folder = tmp_path_factory.mktemp("demo")
    apps = {
        "lexical": build_lexical(LexicalSettings(directory=folder / "lexical")),
        "dense": build_dense(DenseSettings(directory=folder / "dense", encoder="hashing", query_cache_mb=1)),
        "late_interaction": build_late(
            LateInteractionSettings(directory=folder / "late_interaction", encoder="hashing")
        ),
        "reranker": build_reranker(RerankerSettings(scorer="overlap", score_cache_mb=1)),
    }
    wires = {name: FaultyTransport(app) for name, app in apps.items()}
    late = BackendAddress(family="late_interaction", url="http://late")
    backends = DEFAULT_BACKENDS | {"late_interaction": late}
    front = build_gateway(GatewaySettings(backends=backends), lambda name, _: FixedEndpoints(wires[name]))
    async with AsyncExitStack() as stack:
        for app in (*apps.values(), front):
            await stack.enter_async_context(app.router.lifespan_context(app))
        client = await stack.enter_async_context(connected("http://gateway", FaultyTransport(front)))
        experiment = read_experiment(experiment_path("demo"), queries=QUERIES, recall_queries=3)
        await ingest_step(client, RunFolder.create(folder / "runs", experiment))
        yield client


@pytest.fixture
def planned() -> Planned:
    return lambda **given: read_experiment(experiment_path("demo"), queries=QUERIES, recall_queries=3, **given)


async def test_the_demo_ends_in_a_valid_report_of_every_pipeline(
    gateway: GatewayClient, planned: Planned, tmp_path: Path
) -> None:
    report = await evaluate(gateway, RunFolder.create(tmp_path / "runs", planned()))
    assert report.valid
    (remark,) = report.warnings
    assert remark.startswith("judged@10 is below 0.5 (")
    assert list(report.pipelines) == ["bm25", "dense", "hybrid", "hybrid-colbert", "hybrid-rerank"]
    for outcome in report.pipelines.values():
        assert (outcome.queries, outcome.judged, outcome.errors, outcome.degraded) == (QUERIES, QUERIES, 0, 0)
        assert outcome.quality["nDCG@10"] is not None
        assert outcome.quality["nDCG@10"] > 0.2
        assert len(outcome.slowest) == 1
        assert (outcome.index_bytes or 0) > 10_000
    parts = {key for key, time in report.pipelines["hybrid-rerank"].stages_ms.items() if time.part_of}
    assert parts == {
        *("bm25.wait", "bm25.bm25", "dense.wait", "dense.encode", "dense.ann"),
        *("rerank.wait", "rerank.get", "rerank.score"),
    }
    assert report.vector_recall["dense"].vectors == report.counts.documents
    assert report.ingest is not None
    assert report.ingest.documents == report.counts.documents


async def test_the_same_pipeline_run_twice_is_the_same(
    gateway: GatewayClient, planned: Planned, tmp_path: Path
) -> None:
    folders = [RunFolder.create(tmp_path / "runs", planned(pipelines=["hybrid"])) for _ in range(2)]
    for folder in folders:
        await evaluate(gateway, folder)
    report = compare([folder.path.name for folder in folders], tmp_path / "runs", ComparisonSettings())
    assert report.notes == ()
    assert [pair.verdict.outcome for pair in report.pairs] == ["same"]
    assert report.pairs[0].overlap_at_10 == pytest.approx(1.0)


@pytest.mark.integration  # takes seconds
@pytest.mark.alone
async def test_a_run_reports_the_hit_rates_of_caches_where_it_lets_services_use_them(
    gateway: GatewayClient, planned: Planned, tmp_path: Path
) -> None:
    async def ranked(caches: bool) -> Report:
        experiment = planned(pipelines=["bm25", "dense", "hybrid-rerank"], caches=caches, metrics=["nDCG@10"])
        return await evaluate(gateway, RunFolder.create(tmp_path / "runs", experiment))

    without, cold, warm = [await ranked(caches) for caches in (False, True, True)]
    assert without.warnings == ()
    assert [outcome.cached for outcome in without.pipelines.values()] == [{}, {}, {}]
    # Each query goes through two pipelines over the dense service: one of them meets the other's vector.
    assert sum(cold.pipelines[name].cached["dense"].hits for name in ("dense", "hybrid-rerank")) == QUERIES
    assert (
        cold.pipelines["hybrid-rerank"].cached["reranker"].hits < cold.pipelines["hybrid-rerank"].cached["reranker"].of
    )
    assert [list(outcome.cached) for outcome in warm.pipelines.values()] == [[], ["dense"], ["dense", "reranker"]]
    assert {use.rate for outcome in warm.pipelines.values() for use in outcome.cached.values()} == {1.0}
    assert warm.warnings == ("caches were on: compare latency only with runs that had them on",)
    assert warm.pipelines["dense"].quality == without.pipelines["dense"].quality
    assert f"1.0000 |   {QUERIES:2} |" in render_markdown(warm.title, report_blocks(warm))
