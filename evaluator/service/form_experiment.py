"""Reads an experiment from the fields of the form that starts one: a bundled experiment and what to change of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.catalogue import holds_set
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, bundled_directory, read_experiment, selected_pipelines
from evaluator.experiments.suite import Suite, read_plan
from evaluator.service.served_datasets import ServedDatasets


@dataclass(frozen=True, slots=True)
class BundledExperiment:
    """An experiment that can be started from the form. `fault`: why it cannot as it is, empty where it can."""

    name: str
    dataset: str
    pipelines: tuple[str, ...]
    load: bool
    fault: str


def bundled_experiments(datasets: ServedDatasets) -> list[BundledExperiment]:
    """Returns the bundled experiments, also those whose dataset is not served: the form can name another."""
    found = []
    for path in sorted(bundled_directory().glob("*.yaml")):
        own = read_experiment(path)  # read_plan would need the dataset
        fault = _fault(path, datasets)
        found.append(BundledExperiment(path.stem, own.dataset, own.arms, own.load is not None, fault))
    return found


def _fault(path: Path, datasets: ServedDatasets) -> str:
    """Returns why a bundled experiment cannot be run as it is; empty where it can."""
    try:
        plan = _one(_plan(path, datasets))
    except EvaluationError as error:
        return str(error)
    return "" if holds_set(plan.directory) else f"{plan.dataset} is not on this machine"


def form_experiment(
    fields: Mapping[str, str], pipelines: Sequence[str], metrics: Sequence[str], datasets: ServedDatasets
) -> Experiment:
    """Reads the fields `experiment`, `dataset` and `queries`, and what was ticked; empty ones change nothing.

    A pipeline that the experiment does not define is one that the gateway serves. Raises EvaluationError.
    """
    name = fields.get("experiment", "")
    path = bundled_directory() / f"{name}.yaml"
    if name not in {found.stem for found in bundled_directory().glob("*.yaml")}:
        raise EvaluationError(f"experiment: {name or 'none'} is no bundled experiment; choose one of the list")
    overrides: dict[str, object] = {}
    if dataset := fields.get("dataset", "").strip():
        datasets.located(dataset)  # before anything else looks at the path
        overrides["dataset"] = dataset
    if queries := fields.get("queries", "").strip():
        try:
            overrides["queries"] = int(queries)
        except ValueError as error:
            raise EvaluationError(f"queries: {queries} is no number; leave it empty for all judged queries") from error
    if metrics:
        overrides["metrics"] = list(metrics)
    base = _one(_plan(path, datasets, **overrides))
    if not pipelines:
        return base
    return _one(_plan(path, datasets, **overrides, pipelines=selected_pipelines(base, pipelines)))


def _plan(path: Path, datasets: ServedDatasets, **overrides: object) -> Experiment | Suite:
    try:
        return read_plan(path, datasets.located, **overrides)
    except EvaluationError as error:
        raise EvaluationError(str(error).removeprefix(f"{path}: ")) from error


def _one(plan: Experiment | Suite) -> Experiment:
    if isinstance(plan, Suite):
        raise EvaluationError(
            f"{plan.name} has several datasets, which the service does not run; name one of them under dataset"
        )
    return plan
