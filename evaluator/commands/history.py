"""Command that lists the runs of an experiment."""

from pathlib import Path
from typing import Annotated

import typer

from evaluator.commands.options import RUNS, Runs, reporting_errors
from evaluator.experiments.suite import read_plan
from evaluator.progress import show
from evaluator.report.history import history as read_history
from evaluator.report.history import reported_experiments
from evaluator.report.history_page import render_experiments, render_history


def history(
    experiment: Annotated[
        str | None,
        typer.Argument(help="The name of an experiment, or its YAML file; without it, experiments are listed."),
    ] = None,
    metric: Annotated[str, typer.Option(help="The metric of the verdicts.")] = "nDCG@10",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for a dashboard.")] = False,
    runs: Runs = RUNS,
) -> None:
    """Lists the runs of an experiment with the verdict of each against the one before, the best and the first."""
    with reporting_errors():
        if experiment is None:
            found = reported_experiments(runs)
            show(found.model_dump_json(indent=2) if as_json else render_experiments(found))
            return
        name = read_plan(Path(experiment)).name if Path(experiment).suffix else experiment
        report = read_history(runs, name, metric)
        show(report.model_dump_json(indent=2) if as_json else render_history(report))
