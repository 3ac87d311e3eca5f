"""Command that drives the gateway as production traffic does."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from evaluator.client.client import GatewayClient, connected
from evaluator.commands import options
from evaluator.commands.load_plan_options import planned_experiment, with_plan_options
from evaluator.commands.steps import end_status, print_load
from evaluator.errors import GATEWAY, EvaluationError, WrongOption
from evaluator.load.against_report import AgainstReport, render_against
from evaluator.load.against_step import AGAINST, SLICE_SECONDS, against_step, expect_another_gateway, expect_slices
from evaluator.load.export import planned_export, unexported_fields, write_export
from evaluator.load.load_report import LOAD, LoadReport
from evaluator.load.load_step import load_step
from evaluator.load.points.ratios import MARGIN
from evaluator.machine.process_costs import expect_processes, parse_processes
from evaluator.progress import say
from evaluator.runs.measurement_lock import measuring
from evaluator.runs.run_folder import LOAD_PAGE, RunFolder

# Options that are no matter of the run's experiment.
WITH_RUN = ("run", "between", "export", "gateway", "runs", "wait", "processes")
# Options of what an exported script does not do: it sends at constant rates, once, and measures by itself.
NOT_EXPORTED = (
    "in_flight",
    "capacity",
    "p99_ms",
    "point_seconds",
    "best_under_ms",
    "warmup_seconds",
    "slice_seconds",
    "generators",
    "repeat",
    "between",
    "against",
)


@with_plan_options
@options.with_options(options.AllExperimentOverrides)
def load(
    context: typer.Context,
    experiment: Annotated[str | None, typer.Argument(help="A bundled experiment or a YAML file.")] = None,
    between: Annotated[
        str | None, typer.Option(help="Command to run between repeats, to restart the services for example.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Send no traffic; write it as targets and k6 scripts to this folder."),
    ] = None,
    run: options.Run = None,
    against: Annotated[
        str | None,
        typer.Option(callback=options.address, help="URL of a second gateway to compare with; slices alternate."),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            min=0.0, help=f"--against: exit status 4 if a percentile is slower by more than this share ({MARGIN})."
        ),
    ] = None,
    gateway: options.Gateway = GATEWAY,
    runs: options.Runs = options.RUNS,
    wait: options.Wait = 120.0,
    processes: options.Processes = "",
    **given: object,
) -> None:
    """Sends traffic to a loaded collection and prints latency and quality of the same answers, by pipeline and rate.

    Options override the experiment's `load` block; --run repeats the load of an earlier run.

    Exit status 0: measured. Lost, late and degraded answers are results, for gates to check. 2: wrong option. 3: times
    are not valid, or the capacity or --against stays undecided. 4: a gate does not hold, or --against finds a slowdown.
    Where both apply, 4 wins; but with times that are not valid, a gate without a value gives 3.
    """
    with options.reporting_errors():
        known = parse_processes(processes)
        if known and (against is not None or export is not None):
            raise WrongOption("--processes: neither --against nor --export measures a process; leave it out")
        if export is not None:
            allowed = context.params.keys() - set(NOT_EXPORTED)
            options.expect_only(context, allowed, "--export writes the requests of --rate for another tool")
        if margin is not None and against is None:
            raise WrongOption("--margin is an option of --against; give it")
        if against is not None and (between is not None or given["best_under_ms"] is not None):
            raise WrongOption(
                "--against sends every slice once and names no best pipeline: leave out --between and --best-under"
            )
        if (experiment is None) == (run is None):
            raise WrongOption("name either an experiment or, with --run, the folder of a run")
        if run is not None:
            options.expect_only(context, WITH_RUN, "--run sends the load of that run's experiment")
            planned, lock_folder = RunFolder.open(run).experiment, RunFolder.open(run).runs
        else:
            defaults = {} if against is None else {"slice_seconds": SLICE_SECONDS}
            planned, lock_folder = planned_experiment(str(experiment), given, defaults), runs
        if planned.load is not None:
            if between is not None and planned.load.repeat == 1:
                raise WrongOption("--between runs before each repeat but the first: give --repeat, 2 or more")
            if against is not None:
                expect_slices(planned.load)
                expect_another_gateway(gateway, against)
        if export is not None:
            with measuring(lock_folder) as lock:
                lock.name(f"export of {planned.name}")
                exported = options.with_gateway(gateway, wait, lambda client: planned_export(client, planned))
            if planned.load is not None and planned.load.arrivals != "constant":
                say(f"These scripts send at a constant rate; `load` itself plans {planned.load.arrivals} arrivals.")
            if planned.load is not None and (fields := unexported_fields(planned.load)):
                say(f"These scripts leave out other fields of the experiment's `load`: {', '.join(fields)}.")
            print("\n".join([f"Run in {export.resolve()}:", *write_export(export, exported)]))
            return
        with (
            measuring(lock_folder) as lock,
            RunFolder.created(runs, planned) if run is None else nullcontext(RunFolder.open(run)) as folder,
        ):
            lock.name(folder.name)
            if against is not None:
                _take_turns(folder, gateway, against, MARGIN if margin is None else margin, wait)
                return

            async def work(client: GatewayClient) -> LoadReport:
                await expect_processes(known)
                return await load_step(client, folder, _before(between, client, wait), known)

            report = options.with_gateway(gateway, wait, work)
        print_load(folder, report)
        print(f"\nReport: {folder.path / LOAD_PAGE} (and {LOAD}, load/ beside it)")
        doubts = [] if report.timing_valid else ["times are not valid"]
        end_status(doubts, report.gates)


def _take_turns(folder: RunFolder, gateway: str, against: str, margin: float, wait: float) -> None:
    """Compares two gateways. Raises Exit with status 3 or 4."""

    async def work(client: GatewayClient) -> AgainstReport:
        async with connected(against) as baseline:
            await options.wait_until_ready(baseline, wait)
            return await against_step(client, baseline, folder, margin)

    report = options.with_gateway(gateway, wait, work)
    print(f"\n{render_against(report)}\n\nFigures: {folder.path / AGAINST} (and load/ beside it)")
    doubts = [] if report.decided else ["the comparison cannot tell"]
    end_status(doubts, (), slower=report.slower)


def _before(command: str | None, client: GatewayClient, wait: float) -> Callable[[], Awaitable[None]] | None:
    """Returns what runs a command and waits for the gateway; None without a command."""
    if command is None:
        return None

    async def restart() -> None:
        process = await asyncio.create_subprocess_shell(command, stdout=sys.stderr)
        if await process.wait() != 0:
            raise EvaluationError(f"--between {command}: ended with status {process.returncode}")
        await options.wait_until_ready(client, wait)

    return restart
