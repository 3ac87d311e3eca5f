"""Owns small runs of the evaluator against a stub of the gateway, in one process."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
from typer.testing import Result

from evaluator.client.client import GatewayClient, connected
from evaluator.experiments.experiment import Experiment
from evaluator.report.evaluation import evaluate
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub, write_shop

Evaluator = Callable[..., Result]  # the command line


def planned(directory: Path, **given: object) -> Experiment:
    """Returns an experiment over the small shop below `directory`, which is written unless it is there."""
    if not (directory / "shop").exists():
        write_shop(directory / "shop")
    content = {
        "name": "small",
        "dataset": str(directory / "shop"),
        "pipelines": ["bm25", "hybrid"],
        "warmup": 1,
        **given,
    }
    return Experiment.model_validate(content)


@asynccontextmanager
async def reached(stub: GatewayStub) -> AsyncIterator[GatewayClient]:
    """Yields a client of the stub."""
    app = stub.app
    async with app.router.lifespan_context(app), connected("http://localhost", httpx.ASGITransport(app=app)) as client:
        yield client


async def evaluated(stub: GatewayStub, experiment: Experiment, directory: Path) -> tuple[Report, RunFolder]:
    """Runs all steps; returns the report and its folder, below `directory`/runs."""
    folder = RunFolder.create(directory / "runs", experiment)
    async with reached(stub) as client:
        return await evaluate(client, folder), folder
