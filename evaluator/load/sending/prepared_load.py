"""Prepares the traffic of an experiment's `load`: checks the gateway and builds the requests. Sends no traffic."""

from typing import NamedTuple

from evaluator.client.client import GatewayClient
from evaluator.datasets.reader import Dataset
from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.traffic import LoadTarget, load_target
from evaluator.metrics.quality import Grades
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm
from evaluator.steps.prepared_run import prepare_run


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
