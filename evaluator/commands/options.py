"""Defines the options that several commands share, and what every command does before and after its work."""

import asyncio
import inspect
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict, TypeVar, get_type_hints

import typer
from pydantic import ValidationError

from evaluator.client.client import GatewayClient, GatewayError, connected
from evaluator.datasets.catalogue import load_catalogue
from evaluator.datasets.reader import expect_files
from evaluator.errors import EvaluationError, WrongOption
from evaluator.experiments.experiment import Experiment, experiment_path, read_pipeline, selected_pipelines
from evaluator.experiments.preference import PREFERENCES, Preference, preference
from evaluator.experiments.suite import Suite, experiments_of, read_plan
from evaluator.metrics.metric_table import parse_metric
from evaluator.progress import in_thread, say
from services.chassis.settings.addresses import server_address
from services.chassis.settings.trust import scheme_fault
from services.contracts.validation_messages import validation_message
from services.files.disk_writes import OUTPUT

RUNS = Path(".runs")
_NAME_IT = "name one by --gateway or GATEWAY_URL, without a path unless a proxy adds it"

READY_POLL_S = 0.5

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., None])

Name = Annotated[
    str,
    typer.Argument(help="A bundled experiment (demo, scifact, scifact-load, nfcorpus, rerank-depths) or a YAML file."),
]


def _run_folder(context: typer.Context, given: Path | None) -> Path | None:
    """Returns the folder of a run that is named by path, or by its name in the folder of all runs."""
    if given is None or given.exists():
        return given
    named: Path = context.params["runs"] / given
    return named if named.is_dir() else given


def address(url: str | None) -> str | None:
    """Returns the address of a gateway. Raises BadParameter for what is none, and for a password: runs record it."""
    try:
        return url if url is None else server_address(url)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Gateway = Annotated[str, typer.Option("--gateway", envvar="GATEWAY_URL", callback=address, help="URL of the gateway.")]
Runs = Annotated[
    Path,
    # Eager: `--run` is looked for in this folder.
    typer.Option("--runs", envvar="EVALUATOR_RUNS", help="The folder that holds the runs.", is_eager=True),
]
Run = Annotated[
    Path | None, typer.Option("--run", help="Path of a run folder, or its name in --runs.", callback=_run_folder)
]
Metrics = Annotated[str | None, typer.Option(envvar="METRICS", help="Quality metrics: nDCG@10,bpref.")]
Processes = Annotated[
    str,
    typer.Option(envvar="PROCESSES", help="Measure CPU and memory of these: dense=http://127.0.0.1:8002,reranker=URL."),
]
_BASELINE = "The pipeline to compare the others with. Default: the experiment's baseline, else the first one."
Baseline = Annotated[str | None, typer.Option(help=_BASELINE)]
_PREFER = f"What decides the recommendation: {PREFERENCES}. Default: the choice of the experiment, else quality."
Prefer = Annotated[str | None, typer.Option(help=_PREFER)]
SKIP_UNSENDABLE = typer.Option("--skip-unsendable", help="Skip and count queries that a request cannot carry.")
AddedFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--judgments",
        # quality.json names them, and is read from other directories.
        resolve_path=True,
        help="Qrels file that adds to or replaces the dataset's judgments; may be repeated.",
    ),
]
Wait = Annotated[float, typer.Option(help="Seconds to wait until the gateway is ready.")]


class ExperimentOverrides(TypedDict):
    """Options that override the experiment's file; None keeps its value."""

    dataset: Annotated[
        str | None, typer.Option(envvar="DATASET", help="A directory in BEIR layout, or a name from `datasets list`.")
    ]
    pipelines: Annotated[
        str | None, typer.Option(envvar="PIPELINES", help="Pipelines to run, by name or by YAML file: bm25,mine.yaml.")
    ]
    preset: Annotated[str | None, typer.Option(envvar="PRESET", help="Lexical preset, instead of the pipeline's.")]
    queries: Annotated[int | None, typer.Option(envvar="QUERIES", help="Number of judged queries to sample.")]
    depth: Annotated[int | None, typer.Option(envvar="DEPTH", help="Depth of the rankings, 1 to 1000 hits.")]
    top: Annotated[int | None, typer.Option(envvar="TOP", help="Hits that a timed request asks for; at most --depth.")]
    metrics: Metrics
    deadline_ms: Annotated[int | None, typer.Option(envvar="DEADLINE_MS", help="Deadline of each search.")]
    baseline: Annotated[str | None, typer.Option(envvar="BASELINE", help=_BASELINE)]
    prefer: Annotated[str | None, typer.Option(envvar="PREFER", help=_PREFER)]
    expansions: Annotated[
        str | None,
        typer.Option(envvar="EXPANSIONS", help="Files that `expand` wrote; adds their presets: A.jsonl,B.jsonl."),
    ]


class AllExperimentOverrides(ExperimentOverrides):
    """All options that override the experiment's file."""

    collection: Annotated[str | None, typer.Option(help="Name of the collection. Default: the directory's.")]
    split: Annotated[str | None, typer.Option(envvar="SPLIT", help="The judgments: qrels/<split>.tsv.")]
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice.")]
    caches: Annotated[bool | None, typer.Option("--caches", help="Let services answer from their caches.")]
    rebuild: Annotated[
        bool | None, typer.Option("--rebuild", help="Load into a new generation even if nothing changed.")
    ]
    strict: Annotated[
        bool | None, typer.Option("--strict", help="Fail on faults of the dataset that are otherwise counted.")
    ]
    skip_unsendable: Annotated[bool | None, SKIP_UNSENDABLE]


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


def expect_only(context: typer.Context, allowed: Collection[str], why: str) -> None:
    """Raises WrongOption, with `why`, where the command line has an option that is not among `allowed`.

    A variable of the environment is not on the command line: it may be set for other commands.
    """
    sources = {option: context.get_parameter_source(str(option.name)) for option in context.command.params}
    given = [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if unfit := [option.opts[0] for option in given if option.name not in allowed]:
        raise WrongOption(f"{why}: leave out {', '.join(unfit)}")


def collection_directory(given: str) -> Path:
    """Returns the directory that a path or a name of the catalogue means. Raises EvaluationError: not exactly one."""
    located = load_catalogue().located(given)
    if len(located) > 1:
        raise EvaluationError(f"{given} has several collections; name one of them: {located[0].directory}, …")
    return located[0].directory


def split_list(text: str) -> list[str]:
    """Reads `a,b`."""
    return [part.strip() for part in text.split(",") if part.strip()]


def metric_names(text: str | None) -> tuple[str, ...] | None:
    """Reads the names of metrics; None without any. Raises WrongOption for an unknown one."""
    try:
        return tuple(parse_metric(name).name for name in split_list(text or "")) or None
    except ValueError as error:
        raise WrongOption(f"--metrics: {error}") from error


def preferred(word: str | None) -> Preference | None:
    """Reads a preference; None without one. Raises WrongOption for an unknown one."""
    try:
        return preference(word) if word is not None else None
    except ValueError as error:
        raise WrongOption(f"--prefer: {error}") from error


def overridden_plan(name: str, **given: object) -> Experiment | Suite:
    """Reads an experiment, over one dataset or several, and applies the given overrides."""
    overrides = {key: value for key, value in given.items() if value not in (None, "")}
    if "metrics" in overrides:
        overrides["metrics"] = split_list(str(overrides["metrics"]))
    if "expansions" in overrides:
        overrides["expansions"] = split_list(str(overrides["expansions"]))
    if "pipelines" in overrides:
        whole = experiments_of(read_plan(experiment_path(name), dataset=overrides.get("dataset")))[0]
        selected = selected_pipelines(whole, split_list(str(overrides["pipelines"])))
        # No name of a pipeline has a dot.
        overrides["pipelines"] = [
            read_pipeline(Path(given)) if isinstance(given, str) and given.endswith((".yaml", ".yml")) else given
            for given in selected
        ]
    try:
        plan = read_plan(experiment_path(name), **overrides)
    except EvaluationError as error:
        faults = error.__cause__.errors() if isinstance(error.__cause__, ValidationError) else []
        for fault in faults:
            if fault["loc"] and (option := fault["loc"][0]) in overrides:
                raise WrongOption(f"--{option.replace('_', '-')} {fault['input']}: {option_message(fault)}") from error
        raise
    for experiment in experiments_of(plan):
        expect_files(experiment.directory, experiment.split)  # before the gateway is waited for
    return plan


def option_message(fault: Mapping[str, Any]) -> str:
    """Returns what is wrong with the value of an option, by one of pydantic's errors."""
    return validation_message(fault).removeprefix("Input should be ")


def overridden_experiment(name: str, **given: object) -> Experiment:
    """Reads an experiment over one dataset and applies the given overrides."""
    plan = overridden_plan(name, **given)
    if isinstance(plan, Suite):
        raise EvaluationError(f"{name} has several datasets, where one is needed; name it with --dataset")
    return plan


async def wait_until_ready(client: GatewayClient, seconds: float) -> None:
    """Waits until the gateway is ready, and prints that it waits. Raises EvaluationError after `seconds`."""
    until, last, announced = time.monotonic() + seconds, "it did not answer", False
    while True:
        try:
            health = await client.health()
        except GatewayError as error:
            await _expect_gateway(client.url, error)
            last = str(error)
        else:
            if health.service != "gateway":
                raise EvaluationError(f"at {client.url} is no gateway but the service {health.service}; {_NAME_IT}")
            if health.status == "ready":
                return
            failed = [check for check in health.checks if not check.ok]
            last = "; ".join(f"{check.name}: {check.detail or 'its log says why'}" for check in failed) or health.status
        if time.monotonic() >= until:
            raise EvaluationError(
                f"the gateway at {client.url} was not ready within {seconds:.0f} s: {last} (another one: --gateway or "
                "GATEWAY_URL)"
            )
        if not announced:
            say(
                f"Waiting at most {seconds:.0f} s for the gateway at {client.url} (another one: --gateway or "
                f"GATEWAY_URL): {last}"
            )
            announced = True
        await asyncio.sleep(READY_POLL_S)


async def _expect_gateway(url: str, error: GatewayError) -> None:
    """Raises EvaluationError where waiting does not change that a gateway cannot be asked."""
    if error.kind == "untrusted" or error.status in (401, 403):
        raise error
    if error.kind == "bad_answer" or (300 <= error.status < 500 and error.status not in (408, 425, 429)):
        raise EvaluationError(f"what answers at {url} is no gateway ({error}); {_NAME_IT}") from error
    if error.kind == "unreachable" and (fault := await in_thread(scheme_fault, url, error)) is not None:
        raise EvaluationError(f"the gateway at {url} cannot be asked: {fault} in --gateway or GATEWAY_URL") from error


def with_gateway(gateway: str, wait: float, work: Callable[[GatewayClient], Awaitable[T]]) -> T:
    """Waits for the gateway and does the work. SIGTERM cancels it, so that what it began is ended and removed."""

    async def main() -> T:
        task = asyncio.current_task()
        if task is not None and threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        async with connected(gateway) as client:
            await wait_until_ready(client, wait)
            return await work(client)

    return asyncio.run(main())


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Turns an EvaluationError into its sentence and exit status 1, or 2 for an option with a wrong value.

    So is the error of a file or folder that cannot be read or written; it names the path. One of standard output is
    left to `end_command`. Ctrl-C ends with 130, SIGTERM while a gateway is asked with 143.
    """
    try:
        yield
    except EvaluationError as error:
        say(f"evaluator: {error}")
        raise typer.Exit(2 if isinstance(error, WrongOption) else 1) from error
    except OSError as error:
        if error.filename in (None, OUTPUT):
            raise
        say(f"evaluator: {error.filename}: {error.strerror}")
        raise typer.Exit(1) from error
    except (KeyboardInterrupt, asyncio.CancelledError) as error:
        say(
            "evaluator: interrupted; written files stay. `ingest` continues where it stopped; `rank`, `load` and "
            "`fetch` start again"
        )
        raise typer.Exit(130 if isinstance(error, KeyboardInterrupt) else 143) from error
