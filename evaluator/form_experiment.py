"""Reads an experiment from the fields of the form that starts one: a bundled experiment and what to change of it."""

from collections.abc import Mapping
from dataclasses import dataclass

from evaluator.datasets.catalogue import holds_set, load_catalogue
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment, bundled_directory
from evaluator.suite import Suite, read_plan


@dataclass(frozen=True, slots=True)
class BundledExperiment:
    """An experiment that can be started from the form. `fault`: why it cannot as it is, empty where it can."""

    name: str
    dataset: str
    pipelines: tuple[str, ...]
    load: bool
    fault: str


def bundled_experiments() -> list[BundledExperiment]:
    """Returns the bundled experiments, also those whose dataset is not on this machine: the form can name another."""
    found = []
    for path in sorted(bundled_directory().glob("*.yaml")):
        try:
            plan = read_plan(path)
        except EvaluationError as error:
            found.append(BundledExperiment(path.stem, "", (), False, str(error)))
            continue
        if isinstance(plan, Experiment):
            here = holds_set(plan.directory)
            fault = "" if here else f"{plan.dataset} is not on this machine"
            found.append(BundledExperiment(path.stem, plan.dataset, plan.arms, plan.load is not None, fault))
    return found


def known_datasets() -> list[str]:
    """Returns the names of the catalogue's sets that are on this machine."""
    catalogue = load_catalogue()
    return [name for name in catalogue.sets if catalogue.directory(name) is not None]


def form_experiment(fields: Mapping[str, str]) -> Experiment:
    """Reads the fields `experiment`, `dataset`, `pipelines` (with commas) and `queries`; empty ones change nothing.

    A pipeline that the experiment does not define is one that the gateway serves. Raises EvaluationError.
    """
    name = fields.get("experiment", "")
    path = bundled_directory() / f"{name}.yaml"
    if name not in {found.stem for found in bundled_directory().glob("*.yaml")}:
        raise EvaluationError(f"experiment: {name or 'none'} is no bundled experiment; choose one of the list")
    overrides: dict[str, object] = {}
    if dataset := fields.get("dataset", "").strip():
        overrides["dataset"] = dataset
    if queries := fields.get("queries", "").strip():
        try:
            overrides["queries"] = int(queries)
        except ValueError as error:
            raise EvaluationError(f"queries: {queries} is no number; leave it empty for all judged queries") from error
    try:
        base = _one(read_plan(path, **overrides))
    except (OSError, ValueError) as error:
        raise EvaluationError(f"dataset: {dataset[:80]!r} is no path: {error}; name a folder or a known set") from error
    if names := [one.strip() for one in fields.get("pipelines", "").split(",") if one.strip()]:
        own = dict(zip(base.arms, base.pipelines, strict=True))
        base = _one(read_plan(path, **overrides, pipelines=[own.get(one, one) for one in names]))
    return base


def _one(plan: Experiment | Suite) -> Experiment:
    if isinstance(plan, Suite):
        raise EvaluationError(
            f"{plan.name} has several datasets, which the service does not run; name one of them under dataset"
        )
    return plan
