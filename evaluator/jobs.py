"""Runs experiments in the background: one at a time, because concurrent ones would disturb each other's figures."""

import asyncio
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import httpx
from pydantic import Field, ValidationError

from evaluator.client import connected
from evaluator.command_line import command_line
from evaluator.datasets.reader import expect_files
from evaluator.errors import EvaluationError
from evaluator.evaluation import evaluate, expect_pipelines
from evaluator.experiment import Experiment
from evaluator.load.live import LiveFigures, listening
from evaluator.measurement_lock import MeasurementLock, MeasurementRunning
from evaluator.report import Report
from evaluator.run_folder import RunFolder
from services.contracts.base import NAME, Wire

logger = logging.getLogger(__name__)

# The name of a run folder; of a run over several datasets, with the dataset's name behind it.
RUN_ID = rf"[0-9]{{8}}T[0-9]{{6,9}}Z-[a-z0-9][a-z0-9_-]{{0,63}}-[0-9a-f]{{8}}(/{NAME})?"
RunId = Annotated[str, Field(pattern=f"^{RUN_ID}$")]
STATE = "state.json"
# Last files of commands that need no ranking, and their names.
MEASURED_ALONE = {"load.json": "load", "against.json": "load", "deadlines.json": "deadlines"}


class JobState(Wire):
    """Progress of an experiment. `id` is the name of its run folder (SUITE/DATASET of one over several datasets),
    `step` the running step or the last one."""

    id: str
    state: Literal["running", "done", "failed", "interrupted"]
    step: str
    detail: str = ""
    live: LiveFigures | None = None  # of the step `load` while it runs


class JobList(Wire):
    """All runs, the newest first."""

    experiments: tuple[JobState, ...]


class ExperimentRunning(Exception):
    """Another experiment or measurement runs; the message names it."""


class Jobs:
    """Runs experiments against one gateway. Their states lie in their folders, for processes to come."""

    def __init__(self, runs: Path, gateway: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._runs = runs
        self._gateway = gateway
        self._transport = transport
        self._states: dict[str, JobState] = {}
        self._live: LiveFigures | None = None
        self._task: asyncio.Task[None] | None = None

    async def expect_startable(self, experiment: Experiment) -> None:
        """Checks what would fail later. Raises ExperimentRunning, DatasetError for a dataset that is not there, and
        GatewayError for a pipeline that the gateway does not serve, or for no gateway."""
        self._expect_idle()
        await asyncio.to_thread(expect_files, experiment.directory, experiment.split)
        async with connected(self._gateway, self._transport) as client:
            await expect_pipelines(client, experiment)

    def start(self, experiment: Experiment) -> JobState:
        """Opens a run folder and starts the experiment. Raises ExperimentRunning while another measurement runs."""
        self._expect_idle()
        lock = self._taken_lock()
        try:
            folder = RunFolder.create(self._runs, experiment)
            lock.name(folder.path.name)
            state = self._set(JobState(id=folder.path.name, state="running", step="ingest"))
        except BaseException:
            lock.release()
            raise
        self._task = asyncio.create_task(self._run(folder))
        # Also of a task that is cancelled before it begins.
        self._task.add_done_callback(lambda _: lock.release())
        return state

    def _taken_lock(self) -> MeasurementLock:
        lock = MeasurementLock(self._runs)
        try:
            lock.take()
        except MeasurementRunning as error:
            raise ExperimentRunning(f"{error}.") from error
        return lock

    def _expect_idle(self) -> None:
        running = [state.id for state in self._states.values() if state.state == "running"]
        if running:
            raise ExperimentRunning(
                f"{running[0]} is running; wait until GET /v1/experiments/{running[0]} says that it has ended."
            )

    def write_error_message(self, error: OSError) -> str:
        """Returns the message for a directory of runs that cannot be written."""
        return f"{self._runs} cannot be written: {error.strerror}"

    def state(self, run: str) -> JobState | None:
        """Returns the state of a run of this process, of an earlier one or of the command line; None: no such run."""
        if run in self._states:
            state = self._states[run]
            return state.model_copy(update={"live": self._live}) if state.state == "running" else state
        folder = RunFolder(self._runs / run)
        if not folder.has("experiment.json"):
            return None
        last = _last_state(folder)
        if last is not None and last.state == "done":
            return last
        if folder.has("report.json"):  # made, or gone on with, on the command line
            return JobState(id=run, state="done", step="report")
        if last is None:
            ended = None if folder.has("rank.json") else next(filter(folder.has, MEASURED_ALONE), None)
            if ended is not None:
                return JobState(id=run, state="done", step=MEASURED_ALONE[ended])
            return JobState(id=run, state="interrupted", step="unknown")
        if last.state == "running":
            detail = f"the service ended while it ran{_way_on(folder, last.step)}"
            return last.model_copy(update={"state": "interrupted", "detail": detail})
        return last

    def every(self) -> JobList:
        """Returns the state of every run in the folder, the newest first."""
        every = (RunFolder(path).name for path in reversed(RunFolder.every(self._runs)))
        names = [name for name in every if re.fullmatch(RUN_ID, name)]
        return JobList(experiments=tuple(state for name in names if (state := self.state(name)) is not None))

    def report(self, run: str) -> Report | None:
        """Returns the report of a run; None when it has none."""
        folder = RunFolder(self._runs / run)
        return folder.read("report.json", Report) if folder.has("report.json") else None

    async def close(self) -> None:
        """Cancels the running experiment; its folder keeps the files of completed steps."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, folder: RunFolder) -> None:
        run = folder.path.name

        def on_step(step: str) -> None:
            self._live = None
            self._set(JobState(id=run, state="running", step=step))

        def on_live(figures: LiveFigures) -> None:
            self._live = figures

        try:
            async with connected(self._gateway, self._transport) as client:
                with listening(on_live):
                    outcome = await evaluate(client, folder, on_step)
        except EvaluationError as error:
            self._end(run, "failed", str(error))
        except asyncio.CancelledError:
            self._end(run, "interrupted", f"the service was stopped{_way_on(folder, self._states[run].step)}")
            raise
        except Exception:
            # No route renders this error: without this the job would stay `running`.
            logger.exception("unforeseen error in an experiment")
            self._end(run, "failed", "an error that we did not foresee; the logs have it")
        else:
            self._end(run, "done", "; ".join(_remarks(outcome)))

    def _end(self, run: str, state: Literal["done", "failed", "interrupted"], detail: str) -> None:
        self._set(JobState(id=run, state=state, step=self._states[run].step, detail=detail))

    def _set(self, state: JobState) -> JobState:
        self._states[state.id] = state
        RunFolder(self._runs / state.id).write(STATE, state)
        return state


def _remarks(outcome: Report) -> Iterator[str]:
    """Yields warnings, gates that do not hold, and whether times of the load are not valid."""
    yield from outcome.warnings
    yield from (one.sentence for one in outcome.gates if not one.held)
    if outcome.load is not None:
        yield from (one.sentence for one in outcome.load.gates if not one.held)
        if not outcome.load.timing_valid:
            yield "times of the load are not valid"


def _way_on(folder: RunFolder, step: str) -> str:
    """Returns which command goes on with an interrupted experiment; a load goes on in an experiment of its own."""
    return "" if step == "ingest" else f"; `{command_line(step, '--run', str(folder.path))}` goes on"


def _last_state(folder: RunFolder) -> JobState | None:
    """Returns the state that a service has left; None for a run of the command line or of another release."""
    try:
        return JobState.model_validate_json((folder.path / STATE).read_bytes())
    except (OSError, ValidationError):
        return None
