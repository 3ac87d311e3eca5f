"""Command of the deadline sweep: the same queries at several deadlines."""

from typing import Annotated, Unpack

import typer
from pydantic import TypeAdapter

from evaluator.commands.options import (
    GATEWAY,
    RUNS,
    AllExperimentOverrides,
    Gateway,
    Name,
    Runs,
    Wait,
    overridden_experiment,
    reporting_errors,
    with_gateway,
    with_options,
)
from evaluator.deadline_sweep import DeadlineReport, render_deadlines, sweep
from evaluator.errors import EvaluationError
from evaluator.evaluation import load_dataset
from evaluator.measurement_lock import measuring


@with_options(AllExperimentOverrides)
def deadlines(
    experiment: Name,
    at: Annotated[str, typer.Option(help="Milliseconds, in the order of the table.")] = "50,100,250,500,1000,2000",
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
    **overrides: Unpack[AllExperimentOverrides],
) -> None:
    """Sends every query at every deadline to a loaded collection; prints a table and writes deadlines.json."""
    with reporting_errors():
        chosen = overridden_experiment(experiment, **overrides)
        try:
            deadlines_ms = [int(part) for part in at.split(",")]
        except ValueError as error:
            raise EvaluationError(f"--at {at}: give whole milliseconds, for example 50,100,250") from error
        dataset = load_dataset(chosen)
        with measuring(runs) as lock:
            lock.name(f"deadlines of {chosen.name}")
            reports = with_gateway(gateway, wait, lambda client: sweep(client, chosen, dataset, deadlines_ms))
        runs.mkdir(parents=True, exist_ok=True)
        (runs / "deadlines.json").write_text(
            TypeAdapter(list[DeadlineReport]).dump_json(list(reports), indent=1).decode()
        )
        print("\n\n".join(render_deadlines(report) for report in reports))
