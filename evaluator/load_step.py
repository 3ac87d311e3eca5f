"""Sends the traffic of an experiment's `load` and leaves load.json in the run's folder."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import NamedTuple

from evaluator.arms import Arm
from evaluator.client import GatewayClient
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.load.calibration import calibrating
from evaluator.load.corpus_loader import CorpusLoader
from evaluator.load.process_watch import watching
from evaluator.load.report import LoadReport
from evaluator.load.step import run_load
from evaluator.load.traffic import LoadTarget, load_target
from evaluator.load_plan import LoadPlan
from evaluator.manifest import Manifest
from evaluator.measured_processes import measured_processes
from evaluator.pipeline_costs import costs_of
from evaluator.prepared_run import keep_manifest, prepare_run
from evaluator.process_costs import NO_PROCESSES
from evaluator.quality import Grades
from evaluator.run_folder import RunFolder


async def load_step(
    client: GatewayClient,
    folder: RunFolder,
    between: Callable[[], Awaitable[None]] | None = None,
    processes: Mapping[str, str] = NO_PROCESSES,
    check: Callable[[], None] = lambda: None,
) -> LoadReport:
    """Drives the traffic of the experiment's `load`; writes `load/`, load.json and, unless there, manifest.json.

    `between`: called before every repeat but the first. `processes`: URLs by name, whose CPU time and memory are
    measured at every point. `check`: called before the first request, when manifest.json is there; it raises
    EvaluationError where nothing should be sent.
    """
    with folder.locked():
        ready = await prepare_load(client, folder)
        keep_manifest(folder, ready.manifest)
        check()
        measured = partial(measured_processes, folder.runs, client.url)
        costs = {name: cost.cpu_ms for name, cost in costs_of(folder).pipelines.items()}
        loader = CorpusLoader(client, folder.experiment, ready.dataset) if ready.plan.while_loading else None
        if loader is not None:
            await loader.expect_absent()
        async with (
            watching(processes, folder.path) as watch,
            calibrating(ready.plan.calibration_seconds, measured) as calibrate,
        ):
            return await run_load(
                folder,
                ready.plan,
                ready.seed,
                ready.target,
                ready.arms,
                ready.judgments,
                measured,
                between,
                costs,
                watch,
                calibrate,
                loader,
            )


class PreparedLoad(NamedTuple):
    """What a load needs of the experiment and the gateway."""

    plan: LoadPlan
    seed: int
    arms: tuple[Arm, ...]
    target: LoadTarget
    judgments: Grades
    dataset: Dataset
    manifest: Manifest


async def prepare_load(client: GatewayClient, folder: RunFolder) -> PreparedLoad:
    """Checks that the gateway has corpus and pipelines."""
    experiment = folder.experiment
    if experiment.load is None:
        raise EvaluationError(f"{folder.path}: the experiment has no `load`; give one, or --rate")
    ready = await prepare_run(client, folder)
    queries = ready.queries.measured
    target = load_target(client.url, experiment, ready.arms, ready.dataset, queries, experiment.load)
    seed = experiment.load.seed_or(experiment.seed)
    return PreparedLoad(
        experiment.load, seed, ready.arms, target, ready.dataset.judgments, ready.dataset, ready.manifest
    )
