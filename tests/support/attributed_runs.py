"""Makes runs with an attribution and a replay, by a gateway over stubs of its backends, in one process."""

from pathlib import Path

import httpx

from evaluator.attribution.attributing import attribute_step
from evaluator.client.client import connected
from evaluator.experiments.experiment import Experiment
from evaluator.replay.tuning import replay_step
from evaluator.report.evaluation import evaluate
from evaluator.runs.run_folder import RunFolder
from tests.support.backends import opened_stack


async def replayed_run(runs: Path, experiment: Experiment) -> RunFolder:
    """Evaluates an experiment, attributes its losses and replays it; returns the folder below `runs`."""
    folder = RunFolder.create(runs, experiment)
    async with (
        opened_stack(ingested=False) as stack,
        connected("http://localhost", httpx.ASGITransport(app=stack.app)) as client,
    ):
        await evaluate(client, folder)
        await attribute_step(client, folder)
    replay_step(folder)
    return folder
