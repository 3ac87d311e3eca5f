"""Command of the deadline sweep: the same queries at several deadlines."""

from contextlib import nullcontext
from typing import Annotated, Unpack

import typer

from evaluator.commands.exit_status import end_status
from evaluator.commands.options import (
    GATEWAY,
    RUNS,
    AllExperimentOverrides,
    Gateway,
    Run,
    Runs,
    Wait,
    expect_only,
    overridden_experiment,
    reporting_errors,
    with_gateway,
    with_options,
)
from evaluator.deadlines.sweep import DEADLINES, DeadlinesFile, deadlines_step
from evaluator.deadlines.tables import render_deadlines
from evaluator.errors import WrongOption
from evaluator.machine.measurement_lock import measuring
from evaluator.runs.run_folder import RunFolder

# Options that are no matter of the run's experiment.
WITH_RUN = ("run", "at", "gateway", "runs", "wait")


@with_options(AllExperimentOverrides)
def deadlines(
    context: typer.Context,
    experiment: Annotated[str | None, typer.Argument(help="A bundled experiment or a YAML file.")] = None,
    at: Annotated[str, typer.Option(help="Milliseconds, in the order of the table.")] = "50,100,250,500,1000,2000",
    run: Run = None,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
    **overrides: Unpack[AllExperimentOverrides],
) -> None:
    """Sends every query at every deadline to a loaded collection; prints a table and writes deadlines.json.

    In a run folder of its own, or with --run in that of a run, where `report` reads it. Exit status 3: the times are
    not valid.
    """
    with reporting_errors():
        try:
            deadlines_ms = [int(part) for part in at.split(",")]
        except ValueError as error:
            raise WrongOption(f"--at {at}: give whole milliseconds, for example 50,100,250") from error
        if (experiment is None) == (run is None):
            raise WrongOption("name either an experiment or, with --run, the folder of a run")
        if run is not None:
            expect_only(context, WITH_RUN, "--run asks the queries of that run's experiment")
        chosen = overridden_experiment(str(experiment), **overrides) if run is None else RunFolder.open(run).experiment
        with (
            measuring(runs if run is None else RunFolder.open(run).runs) as lock,
            RunFolder.created(runs, chosen) if run is None else nullcontext(RunFolder.open(run)) as folder,
        ):
            lock.name(f"deadlines of {folder.name}")
            found = with_gateway(gateway, wait, lambda client: deadlines_step(client, folder, deadlines_ms))
        print_deadlines(folder, found)


def print_deadlines(folder: RunFolder, found: DeadlinesFile) -> None:
    """Prints the tables of a sweep. Raises Exit with status 3 where its times are not valid."""
    print("\n\n".join(render_deadlines(found)))
    print(f"\nFigures: {folder.path / DEADLINES} (and manifest.json beside it)")
    end_status(folder.experiment.name, [] if found.timing_valid else ["times are not valid"], ())
