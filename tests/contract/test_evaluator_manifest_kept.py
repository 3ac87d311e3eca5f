"""A run's manifest.json is of all its figures: what is measured beside an earlier step is of the same things."""

from pathlib import Path

import pytest

from evaluator.client.client import GatewayClient
from evaluator.errors import EvaluationError
from evaluator.load.load_step import load_step
from evaluator.machine.environment_record import Gpu
from evaluator.report.evaluation import ingest_step, rank_step
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.small_runs import planned, reached


async def refused(client: GatewayClient, folder: RunFolder) -> str:
    """Returns why a load does not begin."""
    with pytest.raises(EvaluationError) as of_load:
        await load_step(client, folder)
    return str(of_load.value)


async def test_another_model_or_commit_than_that_of_the_manifest_is_named_and_nothing_is_measured(
    tmp_path: Path,
) -> None:
    stub = GatewayStub()
    folder = RunFolder.create(
        tmp_path / "runs", planned(tmp_path, load={"rates": [20], "seconds": 1, "warmup_seconds": 0})
    )
    async with reached(stub) as client:
        await ingest_step(client, folder)
        await rank_step(client, folder)
        before = folder.read("manifest.json", Manifest)
        stub.stamp = {"model": "another"}
        assert "there is another engine or model; measure in a new run" in await refused(client, folder)
        stub.stamp = {"schema": "1"}
        elsewhere = before.machine.model_copy(update={"host": "elsewhere"})
        folder.write("manifest.json", before.model_copy(update={"git_commit": "0" * 40, "machine": elsewhere}))
        assert "there is another machine and another commit; measure in a new run" in await refused(client, folder)
        other_gpu = before.machine.model_copy(update={"gpus": (Gpu(name="another", memory_mib=1),)})
        folder.write("manifest.json", before.model_copy(update={"machine": other_gpu}))
        assert "there is another machine; measure in a new run" in await refused(client, folder)
