"""Reads an experiment from the fields of the form that starts one: a bundled experiment and what to change of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment, bundled_directory, read_experiment, selected_pipelines
from evaluator.experiments.suite import Suite, read_plan
from evaluator.service.served_files import ServedDatasets


def bundled_experiments() -> list[tuple[str, Experiment]]:
    """Returns the bundled experiments by name, also those whose dataset is not served: the form can name another."""
    # read_plan would need the datasets.
    return [(path.stem, read_experiment(path)) for path in sorted(bundled_directory().glob("*.yaml"))]


def form_experiment(
    fields: Mapping[str, str], pipelines: Sequence[str], metrics: Sequence[str], datasets: ServedDatasets
) -> Experiment:
    """Reads the fields `experiment`, `dataset` and `queries`, and what was ticked; empty ones change nothing.

    A pipeline that the experiment does not define is one that the gateway serves. Raises EvaluationError.
    """
    name = fields.get("experiment", "")
    path = bundled_directory() / f"{name}.yaml"
    if name not in {file.stem for file in bundled_directory().glob("*.yaml")}:
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
    base = _experiment(path, datasets, **overrides)
    if not pipelines:
        return base
    return _experiment(path, datasets, **overrides, pipelines=selected_pipelines(base, pipelines))


def _experiment(path: Path, datasets: ServedDatasets, **overrides: object) -> Experiment:
    try:
        plan = read_plan(path, datasets.located, **overrides)
    except EvaluationError as error:
        raise EvaluationError(str(error).removeprefix(f"{path}: ")) from error
    if isinstance(plan, Suite):
        raise EvaluationError(
            f"{plan.name} has several datasets, which the service does not run; name one of them under dataset"
        )
    return plan
