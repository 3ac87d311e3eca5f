"""The command line: one command per step, `run` for all of them, `demo` for a first look, `serve` for the service."""

import asyncio
import inspect
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypedDict, TypeVar, Unpack, get_type_hints

import typer
from pydantic import TypeAdapter

from evaluator.client import GatewayClient, connected
from evaluator.command_line import command_line
from evaluator.datasets.reader import expect_dataset
from evaluator.deadline_sweep import DeadlineReport, render_deadlines, sweep
from evaluator.errors import EvaluationError
from evaluator.evaluation import (
    evaluate,
    ingest_step,
    load_dataset,
    quality_step,
    rank_step,
    report_step,
    wait_until_ready,
)
from evaluator.experiment import Experiment, collection_name, experiment_path, read_experiment
from evaluator.progress import say
from evaluator.render import render_table
from evaluator.report import Report
from evaluator.run_folder import LATEST, RunFolder

GATEWAY = "http://127.0.0.1:8000"
RUNS = Path(".runs")
# Exit status. 1: a step failed; 2: wrong command line; 3: all files are written, but the run is not valid.
INVALID_RUN = 3

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])
app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

Name = Annotated[
    str, typer.Argument(help="A bundled experiment (demo, scifact, nfcorpus, rerank-depths) or a YAML file.")
]
Gateway = Annotated[str, typer.Option("--gateway", envvar="GATEWAY_URL", help="Where the gateway is.")]
Runs = Annotated[Path, typer.Option("--runs", envvar="EVALUATOR_RUNS", help="The folder that holds the runs.")]
Run = Annotated[Path | None, typer.Option("--run", help="The folder of one run.")]
Wait = Annotated[float, typer.Option(help="Seconds to wait until the gateway is ready.")]


class ExperimentOverrides(TypedDict):
    """Options that override the experiment's file; None keeps its value."""

    dataset: Annotated[str | None, typer.Option(envvar="DATASET", help="A directory in BEIR layout.")]
    pipelines: Annotated[str | None, typer.Option(envvar="PIPELINES", help="Some of the pipelines: bm25,dense.")]
    preset: Annotated[str | None, typer.Option(envvar="PRESET", help="A lexical preset instead of the pipeline's own.")]
    queries: Annotated[int | None, typer.Option(envvar="QUERIES", help="How many judged queries, drawn with the seed.")]
    depth: Annotated[int | None, typer.Option(envvar="DEPTH", help="Hits a query, 1 to 1000.")]


class AllExperimentOverrides(ExperimentOverrides):
    """All options that override the experiment's file."""

    collection: Annotated[str | None, typer.Option(help="The collection's name; without it, the directory's.")]
    split: Annotated[str | None, typer.Option(envvar="SPLIT", help="Which qrels/<split>.tsv.")]
    seed: Annotated[int | None, typer.Option(help="Seed of every sample.")]
    rebuild: Annotated[bool | None, typer.Option("--rebuild", help="Load into a new generation in any case.")]
    strict: Annotated[
        bool | None, typer.Option("--strict", help="Refuse what reading the dataset would otherwise count.")
    ]


def with_options(options: type[ExperimentOverrides]) -> Callable[[Command], Command]:
    """Replaces `**overrides` in a command's signature by the keys of `options`, because typer reads the signature."""

    def decorated(command: Command) -> Command:
        *own, _ = inspect.signature(command).parameters.values()
        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
            for name, option in get_type_hints(options, include_extras=True).items()
        ]
        command.__signature__ = inspect.Signature([*own, *parameters])  # type: ignore[attr-defined]  # inspect heeds it
        return command

    return decorated


@app.command()
@with_options(AllExperimentOverrides)
def run(
    experiment: Name,
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
    **overrides: Unpack[AllExperimentOverrides],
) -> None:
    """Runs all steps: ingest, rank, quality, report. Exit status 3 when queries were lost or answers degraded."""
    with reporting_errors():
        folder = RunFolder.create(runs, _overridden_experiment(experiment, **overrides))
        _print_outcome(folder, _with_gateway(gateway, wait, lambda client: evaluate(client, folder)))


@app.command()
@with_options(ExperimentOverrides)
def demo(
    gateway: Gateway = GATEWAY, runs: Runs = RUNS, wait: Wait = 120.0, **overrides: Unpack[ExperimentOverrides]
) -> None:
    """Runs our own or any BEIR collection through every pipeline and prints a table. Exit status as of `run`."""
    with reporting_errors():
        folder = RunFolder.create(runs, _overridden_experiment("demo", **overrides))
        _print_outcome(folder, _with_gateway(gateway, wait, lambda client: evaluate(client, folder)))


@app.command()
@with_options(AllExperimentOverrides)
def ingest(
    experiment: Name = "demo",
    gateway: Gateway = GATEWAY,
    runs: Runs = RUNS,
    wait: Wait = 120.0,
    **overrides: Unpack[AllExperimentOverrides],
) -> None:
    """Opens a run folder and loads the collection. Can be repeated: it completes an interrupted load."""
    with reporting_errors():
        folder = RunFolder.create(runs, _overridden_experiment(experiment, **overrides))
        _with_gateway(gateway, wait, lambda client: ingest_step(client, folder))
        _print_next_step("rank", folder, gateway)


@app.command()
def rank(gateway: Gateway = GATEWAY, runs: Runs = RUNS, run: Run = None, wait: Wait = 120.0) -> None:
    """Sends every query through every pipeline of a run (the newest one unless --run says which)."""
    with reporting_errors():
        folder = RunFolder.open(run or RunFolder.newest(runs))
        _with_gateway(gateway, wait, lambda client: rank_step(client, folder))
        _print_next_step("quality", folder)


@app.command()
def quality(runs: Runs = RUNS, run: Run = None) -> None:
    """Measures the run files of a run (the latest one unless --run says which)."""
    with reporting_errors():
        folder = RunFolder.open(run or runs / LATEST)
        quality_step(folder)
        _print_next_step("report", folder)


@app.command()
def report(runs: Runs = RUNS, run: Run = None) -> None:
    """Writes report.json and report.md of a run (the latest one unless --run says which). Exit status as of `run`."""
    with reporting_errors():
        folder = RunFolder.open(run or runs / LATEST)
        _print_outcome(folder, report_step(folder))


@app.command()
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
        chosen = _overridden_experiment(experiment, **overrides)
        try:
            deadlines_ms = [int(part) for part in at.split(",")]
        except ValueError as error:
            raise EvaluationError(f"--at {at}: give whole milliseconds, for example 50,100,250") from error
        dataset = load_dataset(chosen)
        reports = _with_gateway(gateway, wait, lambda client: sweep(client, chosen, dataset, deadlines_ms))
        runs.mkdir(parents=True, exist_ok=True)
        (runs / "deadlines.json").write_text(
            TypeAdapter(list[DeadlineReport]).dump_json(list(reports), indent=1).decode()
        )
        print("\n\n".join(render_deadlines(report) for report in reports))


@app.command()
def serve() -> None:
    """Runs the HTTP service, on port 8009 unless EVALUATOR_PORT says otherwise."""
    # Imported here: only the service may use the chassis (import contract 3).
    from evaluator.app import main

    main()


def _overridden_experiment(name: str, **given: object) -> Experiment:
    """Reads an experiment and applies the given overrides."""
    overrides = {key: value for key, value in given.items() if value not in (None, "")}
    pipelines = overrides.get("pipelines")
    if isinstance(pipelines, str):
        overrides["pipelines"] = [part.strip() for part in pipelines.split(",") if part.strip()]
    if "dataset" in overrides and "collection" not in overrides:
        # The file's collection belongs to the file's dataset: another dataset gets its own.
        own, other = read_experiment(experiment_path(name)).directory, Path(str(overrides["dataset"]))
        if own.resolve() != other.resolve():
            overrides["collection"] = collection_name(other)
    chosen = read_experiment(experiment_path(name), **overrides)
    expect_dataset(chosen.directory)
    return chosen


def _with_gateway(gateway: str, wait: float, work: Callable[[GatewayClient], Awaitable[T]]) -> T:
    async def main() -> T:
        async with connected(gateway) as client:
            await wait_until_ready(client, wait)
            return await work(client)

    return asyncio.run(main())


def _print_next_step(step: str, folder: RunFolder, gateway: str = GATEWAY) -> None:
    """Prints the command of the next step, with --gateway when this one was given another URL."""
    elsewhere = [] if gateway == GATEWAY else ["--gateway", gateway]
    say(f"Next: {command_line(step, '--run', str(folder.path), *elsewhere)}")


def _print_outcome(folder: RunFolder, outcome: Report) -> None:
    sample = f" (a sample, seed {outcome.seed})" if outcome.sample else ""
    engines = ", ".join(f"{name} on {engine}" for name, engine in outcome.engine.items())
    print(f"\n{outcome.dataset}: {outcome.counts.documents} documents; {engines}{sample}\n")
    print(render_table(outcome))
    for backend, found in outcome.vector_recall.items():
        if found.recall is not None:
            print(
                f"\n{backend}: approximate search finds {found.recall:.4f} of the exact top {found.top} "
                f"({found.indexed} of {found.vectors} vectors indexed)"
            )
    print(f"\nReport: {folder.path / 'report.json'} (and report.md, runs/, manifest.json beside it)")
    if not outcome.valid:
        # Printed last, a line each, so that the table is not quoted without them.
        print("\nTHIS RUN IS NOT VALID:\n" + "\n".join(f"  {warning}" for warning in outcome.warnings), file=sys.stderr)
        raise typer.Exit(INVALID_RUN)


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turns an EvaluationError into its sentence and exit status 1, an interruption into status 130."""
    try:
        yield
    except EvaluationError as error:
        say(f"evaluator: {error}")
        raise typer.Exit(1) from error
    except KeyboardInterrupt as error:
        say("evaluator: interrupted; what was written stays, and `ingest` goes on where it stood")
        raise typer.Exit(130) from error
