"""A load keeps several batches in flight, slows down where it is refused, and loses nothing."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.progress import Advance
from evaluator.steps.ingest import ingest
from evaluator.steps.prepared_run import load_dataset
from retrieval_client import exchange, loading
from retrieval_client.loading import MOST_BATCH_DOCUMENTS, MOST_IN_FLIGHT, BackendLoad
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import planned, reached

DOCUMENTS = 3_000
IDS = {f"d{number}" for number in range(DOCUMENTS)}


@pytest.fixture
def stub() -> GatewayStub:
    return GatewayStub(load_delay_s=0.02)


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    wanted = planned(tmp_path)
    lines = (json.dumps({"_id": f"d{number}", "text": f"bell {number}"}) for number in range(DOCUMENTS))
    (tmp_path / "shop" / "corpus.jsonl").write_text("\n".join(lines))
    return wanted


async def test_several_batches_are_in_flight_and_each_document_is_counted_once(
    stub: GatewayStub, experiment: Experiment
) -> None:
    counted: list[int] = []

    @contextmanager
    def shown(_label: str, _total: int, _unit: str) -> Iterator[Advance]:
        yield lambda count, _lost=0: counted.append(count)

    async with reached(stub) as client:
        report = await ingest(client, experiment, load_dataset(experiment), shown=shown)
    assert 1 < stub.highest_loading <= MOST_IN_FLIGHT
    assert stub.documents.keys() == IDS
    assert sum(counted) == sum(stub.batches) == report.documents == DOCUMENTS
    assert report.backends["dense"].indexed == DOCUMENTS
    assert report.batches == len(stub.batches)
    assert max(stub.batches) == MOST_BATCH_DOCUMENTS


async def test_each_part_of_a_batch_is_sent_again_for_as_long(
    stub: GatewayStub, experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "SLOW_S", 1e-9)  # so that parts are of one document after the first attempt
    monkeypatch.setattr(loading, "PATIENCE_S", 0.03)  # less than eight pauses of FIRST_PAUSE_S
    monkeypatch.setattr(exchange, "FIRST_PAUSE_S", 0.005)
    stub.load_delay_s, stub.failures_before_each = 0.0, 1
    lines = (tmp_path / "shop" / "corpus.jsonl").read_text().splitlines()
    (tmp_path / "shop" / "corpus.jsonl").write_text("\n".join(lines[:8]))
    async with reached(stub) as client:
        report = await ingest(client, experiment, load_dataset(experiment))
    assert (report.documents, report.retries, stub.batches) == (8, 8, [1] * 8)


async def test_a_load_that_ended_midway_is_completed_by_the_next_one(stub: GatewayStub, experiment: Experiment) -> None:
    async with reached(stub) as client:
        killed = asyncio.create_task(ingest(client, experiment, load_dataset(experiment)))
        async with asyncio.timeout(30):
            while len(stub.batches) < 5:  # noqa: ASYNC110  # the stub has no event for it
                await asyncio.sleep(0.001)
        killed.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killed
        held = len(stub.documents)
        report = await ingest(client, experiment, load_dataset(experiment))
    assert 0 < held < DOCUMENTS
    assert stub.documents.keys() == IDS
    assert report.backends["dense"] == BackendLoad(DOCUMENTS - held, held, DOCUMENTS - held)


async def test_after_an_error_no_batch_is_in_flight(stub: GatewayStub, experiment: Experiment) -> None:
    stub.refused_documents = {"d700"}
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match="d700"):
            await ingest(client, experiment, load_dataset(experiment))
        arrived = len(stub.batches)
        assert stub.loading == 0
        await asyncio.sleep(4 * stub.load_delay_s)
    assert len(stub.batches) == arrived
    assert sum(stub.batches) < DOCUMENTS


async def test_a_load_that_others_write_into_is_not_published(stub: GatewayStub, experiment: Experiment) -> None:
    stub.overtaken_documents = {"d3"}
    async with reached(stub) as client:
        with pytest.raises(EvaluationError, match="somebody else wrote 1 of these documents meanwhile, such as 'd3'"):
            await ingest(client, experiment, load_dataset(experiment))
    assert stub.live is None
