"""Runs experiments in the background: one at a time, because concurrent ones would disturb each other's figures."""

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import httpx
from pydantic import Field, ValidationError

from evaluator.client.client import GatewayError, connected
from evaluator.client.gateway_access import GatewayAccess
from evaluator.datasets.reader import expect_files
from evaluator.errors import GATEWAY, EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.progress import StepProgress, following
from evaluator.report.evaluation import evaluate, expect_pipelines
from evaluator.report.run_report import Report
from evaluator.runs.measurement_lock import MeasurementLock, MeasurementRunning, is_measured
from evaluator.runs.run_folder import RunFolder, removed_on_error
from evaluator.service.served_files import MessagePaths, ServedDatasets
from services.chassis.errors import BadInput, Conflict, NotFound, Unavailable, UnknownPipeline
from services.contracts.base import NAME, Wire
from services.contracts.pipelines import Pipeline
from services.files.regular_file import read_regular

logger = logging.getLogger(__name__)

STATE = "state.json"
# Last files of commands that need no ranking, and their names.
MEASURED_ALONE = {"load.json": "load", "against.json": "load"}
# Steps that only compute, in a thread, whose end a cancelled one would wait for (thread_work.py).
COMPUTED = ("quality", "report")
MOST_STATE_BYTES = 1_000_000

# The name of a run folder; of a run over several datasets, with the dataset's name behind it.
RUN_ID = rf"[0-9]{{8}}T[0-9]{{6,9}}Z-[a-z0-9][a-z0-9_-]{{0,63}}-[0-9a-f]{{8}}(/{NAME})?"
RUN_NAME = re.compile(RUN_ID)
# A run, alone or with one of its pipelines. Not a path: no file is read by a name that a caller chose.
COMPARED_RUN = re.compile(f"{RUN_ID}(:{NAME})?")
RunId = Annotated[str, Field(pattern=f"^{RUN_ID}$")]
Ended = Literal["done", "failed", "interrupted"]


class JobState(Wire):
    """Progress of an experiment. `id` is the name of its run folder (SUITE/DATASET of one over several datasets),
    `step` the running step or the last one. A cancelled run is `interrupted`, and `detail` says so."""

    id: str
    state: Literal["running", "done", "failed", "interrupted"]
    step: str
    detail: str = ""
    progress: StepProgress | None = None  # of the part of the step that runs; null: none has begun, or it has ended


class JobList(Wire):
    """All runs, the newest first."""

    experiments: tuple[JobState, ...]


class ExperimentRunning(Conflict):
    """Another experiment or measurement runs; the message names it."""


class NotCancellable(Conflict):
    """A run that has ended, or whose step cannot be left; the message states which."""


class Jobs:
    """Runs experiments against one gateway. Their states lie in their folders, for later processes."""

    def __init__(
        self,
        runs: Path,
        gateway: str,
        datasets: ServedDatasets,
        paths: MessagePaths,
        transport: httpx.AsyncBaseTransport | None = None,
        access: GatewayAccess | None = None,
    ) -> None:
        """`transport` and `access`: as of `connected`."""
        self._runs = runs
        self._datasets = datasets
        self._paths = paths
        self._gateway = gateway
        self._transport = transport
        self._access = access
        self._states: dict[str, JobState] = {}
        self._progress: StepProgress | None = None
        self._cancelled = False
        self._task: asyncio.Task[None] | None = None

    async def startable(self, experiment: Experiment) -> Experiment:
        """Returns an experiment that a caller sent with its files placed beneath the served folders (ServedDatasets).

        Checks what would fail later. Raises ExperimentRunning, BadInput for files that are not served or not there,
        UnknownPipeline for one that the gateway does not serve, and Unavailable for no gateway.
        """
        self._expect_idle()
        try:
            placed = await asyncio.to_thread(self._datasets.placed, experiment)
        except EvaluationError as error:
            raise BadInput(f"{error}.") from error
        try:
            await asyncio.to_thread(expect_files, placed.directory, placed.split)
            async with connected(self._gateway, self._transport, self._access) as client:
                await expect_pipelines(client, placed)
        except GatewayError as error:
            raise (UnknownPipeline if error.status == 404 else Unavailable)(f"{error}.") from error
        except EvaluationError as error:
            raise BadInput(f"dataset: {self._paths.shortened(error)}.") from error
        return placed

    async def served_pipelines(self) -> tuple[Pipeline, ...]:
        """Returns the gateway's pipelines; none where no gateway answers."""
        try:
            async with connected(self._gateway, self._transport, self._access) as client:
                return await client.pipelines()
        except GatewayError:
            return ()

    def start(self, experiment: Experiment) -> JobState:
        """Opens a run folder and starts an experiment that `startable` has returned.

        Raises ExperimentRunning while another measurement runs, Unavailable where the folder cannot be written.
        """
        self._expect_idle()
        try:
            return self._begin(experiment)
        except MeasurementRunning as error:
            raise ExperimentRunning(f"{error}.") from error
        except OSError as error:
            raise Unavailable(f"The folder of runs cannot be written: {error.strerror}; see EVALUATOR_RUNS.") from error

    def _begin(self, experiment: Experiment) -> JobState:
        lock = MeasurementLock(self._runs)
        lock.take()
        try:
            folder = RunFolder.create(self._runs, experiment)
            with removed_on_error(folder.path):
                lock.name(folder.path.name)
                state = self._set(JobState(id=folder.path.name, state="running", step="ingest"))
        except BaseException:
            lock.release()
            raise
        self._cancelled = False
        self._task = asyncio.create_task(self._run(folder))
        # Also of a task that is cancelled before it begins.
        self._task.add_done_callback(lambda _: lock.release())
        return state

    def _expect_idle(self) -> None:
        if (run := self.running) is not None:
            raise ExperimentRunning(f"{run} is running; wait until GET /v1/experiments/{run} says that it has ended.")

    def state(self, run: str) -> JobState | None:
        """Returns the state of a run of this process, of an earlier one or of the command line; None: no such run."""
        state = self._state(run) if run in self._states or self.holds(run) else None
        return None if state is None else state.model_copy(update={"detail": self._paths.shortened(state.detail)})

    def expect(self, run: str) -> JobState:
        """Returns the state of a run. Raises NotFound: no file is read by a name that a caller chose."""
        state = self.state(run) if RUN_NAME.fullmatch(run) else None
        if state is None:
            raise NotFound(f"No run {run} here; the list of runs has all.")
        return state

    def holds(self, run: str) -> bool:
        """Returns whether a folder of this name is there, and is no link that leads out of the folder of runs."""
        folder = self.folder(run).path
        return folder.is_dir() and folder.is_relative_to(self._runs.resolve())

    def _state(self, run: str) -> JobState | None:
        if run in self._states:
            state = self._states[run]
            if state.state == "running":
                return state.model_copy(update={"progress": self._progress})
            if state.state != "interrupted":  # the command line may have gone on with it
                return state
        folder = RunFolder(self._runs / run)
        if not folder.has("experiment.json"):
            return None
        last = _last_state(folder)
        if last is not None and last.state == "done":
            return last
        if folder.has("report.json"):  # made, or gone on with, on the command line
            return JobState(id=run, state="done", step="report")
        if is_measured(self._runs, run):
            return JobState(id=run, state="running", step="unknown", detail="a command measures it, and says how far")
        if last is None:
            ended = None if folder.has("rank.json") else next(filter(folder.has, MEASURED_ALONE), None)
            if ended is not None:
                return JobState(id=run, state="done", step=MEASURED_ALONE[ended])
            if folder.has("ingest.json") and not folder.has("rank.json") and not folder.asked:  # `make up`, or `ingest`
                return JobState(id=run, state="done", step="ingest")
            return JobState(id=run, state="interrupted", step="unknown")
        if last.state == "running":
            detail = f"the service ended while it ran{self._way_on(folder, last.step)}"
            return last.model_copy(update={"state": "interrupted", "detail": detail})
        return last

    @property
    def running(self) -> str | None:
        """The id of the run that this process measures now."""
        return next((state.id for state in self._states.values() if state.state == "running"), None)

    def names(self) -> list[str]:
        """Returns the ids of all runs in the folder, the newest first."""
        every = (RunFolder(path).name for path in reversed(RunFolder.every(self._runs)))
        return [name for name in every if RUN_NAME.fullmatch(name) and self.holds(name)]

    def states(self, names: Sequence[str]) -> list[JobState]:
        """Returns the states of runs, without those that are gone."""
        return [state for name in names if (state := self.state(name)) is not None]

    def command(self, command: str, *words: str) -> str:
        """Returns a shell line that calls the evaluator for this gateway, where the command asks one."""
        asks = command in ("rank", "load", "attribute")
        return command_line(command, *words, gateway=self._gateway if asks else GATEWAY)

    def _way_on(self, folder: RunFolder, step: str) -> str:
        """Returns which command goes on with an interrupted experiment; a load goes on in an experiment of its own."""
        return "" if step == "ingest" else f"; `{self.command(step, '--run', str(folder.path))}` goes on"

    def folder(self, run: str) -> RunFolder:
        return RunFolder(self._runs / run)

    def report(self, run: str) -> Report | None:
        """Returns the report of a run; None when it has none. Raises EvaluationError."""
        folder = self.folder(run)
        try:
            return folder.read("report.json", Report) if folder.has("report.json") else None
        except EvaluationError as error:
            raise EvaluationError(self._paths.shortened(error)) from error

    async def cancel(self, run: str) -> JobState:
        """Ends a running experiment, and returns when nothing of it works any more. Raises NotCancellable.

        Its folder keeps the files of completed steps.
        """
        state = self._states.get(run)
        if self._task is None or state is None or state.state != "running":
            raise NotCancellable(f"{run} does not run in this service, so there is nothing to cancel.")
        if state.step in COMPUTED:
            raise NotCancellable(f"{run} is in its step {state.step}, which sends nothing and ends by itself.")
        self._cancelled = True
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        if self._states[run].state == "running":  # cancelled before its first line
            self._end(run, "interrupted", "cancelled on request")
        return self.state(run) or self._states[run]

    async def close(self) -> None:
        """Cancels the running experiment; its folder keeps the files of completed steps."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, folder: RunFolder) -> None:
        run = folder.path.name

        def on_step(step: str) -> None:
            self._progress = None
            self._set(JobState(id=run, state="running", step=step))

        def on_progress(progress: StepProgress) -> None:
            self._progress = progress

        try:
            async with connected(self._gateway, self._transport, self._access) as client:
                with following(on_progress):
                    outcome = await evaluate(client, folder, on_step)
        except EvaluationError as error:
            self._end(run, "failed", str(error))
        except OSError as error:  # a full disk, no permission
            self._end(run, "failed", f"{error.filename}: {error.strerror}; mend that and start the experiment anew")
        except asyncio.CancelledError:
            why = "cancelled on request" if self._cancelled else "the service was stopped"
            self._end(run, "interrupted", f"{why}{self._way_on(folder, self._states[run].step)}")
            raise
        except Exception:
            # No route renders this error: without this the job would stay `running`.
            logger.exception("unforeseen error in an experiment")
            self._end(run, "failed", "an error that we did not foresee; the logs have it")
        else:
            self._end(run, "done", "; ".join(_remarks(outcome)))

    def _end(self, run: str, state: Ended, detail: str) -> None:
        ended = JobState(id=run, state=state, step=self._states[run].step, detail=detail)
        self._states[run] = ended  # also where it cannot be written
        try:
            self._set(ended)
        except OSError as error:
            logger.warning("%s: the end of a run is not written: %s", error.filename, error.strerror)

    def _set(self, state: JobState) -> JobState:
        RunFolder(self._runs / state.id).write(STATE, state)
        self._states[state.id] = state
        return state


def _remarks(outcome: Report) -> Iterator[str]:
    """Yields warnings, gates that do not hold, and whether times of the load are not valid."""
    yield from outcome.warnings
    yield from (gate.sentence for gate in outcome.gates if not gate.held)
    if outcome.load is not None:
        yield from (gate.sentence for gate in outcome.load.gates if not gate.held)
        if not outcome.load.timing_valid:
            yield "times of the load are not valid"


def _last_state(folder: RunFolder) -> JobState | None:
    """Returns the state that a service has left; None for a run of the command line or of another release.

    Its id is the folder's present name: a folder may have been copied or moved into a suite.
    """
    try:
        left = JobState.from_record(read_regular(folder.path / STATE, MOST_STATE_BYTES))
        return left.model_copy(update={"id": folder.name})
    except (OSError, ValidationError):
        return None
