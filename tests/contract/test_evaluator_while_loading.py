"""Searches timed while the corpus is loaded as another collection, against a stub of the gateway."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evaluator.client.client import connected
from evaluator.errors import EvaluationError
from evaluator.evaluation import ingest_step
from evaluator.load.report import LoadReport
from evaluator.load.sending.corpus_loader import CorpusLoader
from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.loading_figures import loading_faults
from evaluator.load.sending.samples import read_samples
from evaluator.load.step import load_step
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.prepared_run import load_dataset
from services.contracts.collections import CollectionDeclaration
from tests.support.gateway_stub import GatewayStub
from tests.support.load_points import CLEAN
from tests.support.served import served
from tests.support.small_runs import planned, reached

TRAFFIC = {"rates": [100], "seconds": 0.6, "warmup_seconds": 0, "while_loading": True}


@pytest.fixture
def other() -> GatewayStub:
    return GatewayStub(load_delay_s=0.05)


@pytest.fixture
def stub(other: GatewayStub) -> GatewayStub:
    return GatewayStub(others={"shop-loading": other})


@pytest.fixture
async def loader(stub: GatewayStub, tmp_path: Path) -> AsyncIterator[CorpusLoader]:
    experiment = planned(tmp_path)
    async with reached(stub) as client:
        yield CorpusLoader(client, experiment, load_dataset(experiment))


async def test_a_rate_is_measured_idle_and_while_loading_with_the_same_requests(
    stub: GatewayStub, other: GatewayStub, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"], top=3, load=TRAFFIC))
    with served(stub.app) as url:
        async with connected(url) as client:
            await ingest_step(client, folder)
            report = await load_step(client, folder)
    assert report == folder.read("load.json", LoadReport)
    idle, loading = report.points
    assert [(one.traffic, one.traffic_in_words) for one in (idle, loading)] == [
        ("100", "100/s"),
        ("100-loading", "100/s while loading"),
    ]
    assert idle.loading is None
    assert loading.loading is not None
    assert 0 < loading.loading.documents <= sum(other.batches)  # the rest ended after the last answer
    sent = [
        [(one.slice, one.query, one.planned_s) for one in read_samples(folder.path / point.files["samples"])]
        for point in (idle, loading)
    ]
    assert sent[0] == sent[1]
    assert {number for number, _, _ in sent[0]} == {0, 1}
    assert [(one.traffic, one.first, one.second, one.percentile) for one in report.ratios] == [
        ("100", "bm25", "bm25 while loading", "p50"),
        ("100", "bm25", "bm25 while loading", "p95"),
    ]
    assert {one.top for one in stub.searches[-10:]} == {3}  # of the experiment: a load has no other
    assert (other.declaration, len(stub.documents)) == (None, 6)


async def test_the_collection_is_removed_after_an_error(stub: GatewayStub, other: GatewayStub, tmp_path: Path) -> None:
    experiment = planned(tmp_path)

    async def failing(loader: CorpusLoader) -> None:
        async with loader.loading():
            await until_loaded(other)
            raise EvaluationError("gone")

    with served(stub.app) as url:
        async with connected(url) as client:
            with pytest.raises(EvaluationError, match="gone"):
                await failing(CorpusLoader(client, experiment, load_dataset(experiment)))
    assert (other.declaration, other.documents) == (None, {})


async def test_the_collection_is_removed_after_an_interruption(
    stub: GatewayStub, other: GatewayStub, tmp_path: Path
) -> None:
    traffic = {**TRAFFIC, "seconds": 60, "slice_seconds": 0.2}
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, pipelines=["bm25"], load=traffic))
    with served(stub.app) as url:
        async with connected(url) as client:
            await ingest_step(client, folder)
            running = asyncio.create_task(load_step(client, folder))
            await until_loaded(other)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert other.declaration is None


async def until_loaded(stub: GatewayStub) -> None:
    """Returns once a batch has arrived."""
    async with asyncio.timeout(30):
        while not stub.batches:  # noqa: ASYNC110  # the stub runs in another thread
            await asyncio.sleep(0.01)


async def test_a_collection_of_that_name_is_refused_and_stays(loader: CorpusLoader, other: GatewayStub) -> None:
    other.declaration = CollectionDeclaration()
    with pytest.raises(EvaluationError, match="shop-loading"):
        await loader.expect_absent()
    assert other.declaration is not None


async def test_loading_that_stops_is_a_fault_of_the_times(loader: CorpusLoader, other: GatewayStub) -> None:
    other.refused_documents = {"d1"}

    async def drive() -> LoadedPoint:
        await asyncio.sleep(0.3)
        return LoadedPoint((), MachineConditions.model_validate(CLEAN), (), True, datetime.now(UTC), 0.3)

    async with loader.loading():
        loading = (await loader.counted(drive())).loading
    assert loading is not None
    assert [fault.split(":")[0] for fault in loading_faults([loading])] == [
        "loading stopped",
        "no document was loaded in 1 of 1 slices; longer ones hold more (--slice-seconds)",
    ]
    assert other.declaration is None


async def test_a_name_that_a_collection_cannot_have_is_refused(stub: GatewayStub, tmp_path: Path) -> None:
    experiment = planned(tmp_path, collection="c" * 60)
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match="--while-loading"):
            CorpusLoader(client, experiment, load_dataset(experiment))
