"""Experiments in the background: one at a time, because two would measure each other."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Literal

import httpx
from pydantic import Field

from evaluator.client import connected
from evaluator.errors import EvaluationError
from evaluator.evaluation import evaluate
from evaluator.experiment import Experiment
from evaluator.report import Report
from evaluator.run_folder import RunFolder
from services.contracts.base import Wire

logger = logging.getLogger(__name__)

RunId = Annotated[str, Field(pattern=r"^[0-9]{8}T[0-9]{6,9}Z-[a-z0-9][a-z0-9_-]{0,63}-[0-9a-f]{8}$")]


class JobState(Wire):
    """How far an experiment is. `id` is the name of its run folder; `step` the one at work, or the last one."""

    id: str
    state: Literal["running", "done", "failed", "interrupted"]
    step: str
    detail: str = ""


class Busy(Exception):
    """Another experiment runs; the message names it."""


class Jobs:
    """Runs experiments against one gateway and remembers how those of this process ended."""

    def __init__(self, runs: Path, gateway: str, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._runs = runs
        self._gateway = gateway
        self._transport = transport
        self._states: dict[str, JobState] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self, experiment: Experiment) -> JobState:
        """Opens a run folder and begins. Raises Busy while another one runs."""
        running = [state.id for state in self._states.values() if state.state == "running"]
        if running:
            raise Busy(f"{running[0]} is running; wait until GET /v1/experiments/{running[0]} says that it has ended.")
        folder = RunFolder.create(self._runs, experiment)
        state = self._set(JobState(id=folder.path.name, state="running", step="ingest"))
        self._task = asyncio.create_task(self._run(folder))
        return state

    def unwritable(self, error: OSError) -> str:
        """What to say of an error at the directory of runs."""
        return f"{self._runs} cannot be written: {error.strerror}"

    def state(self, run: str) -> JobState | None:
        """An experiment of this process, or one that an earlier process left in the folder; None: no such run."""
        if run in self._states:
            return self._states[run]
        folder = RunFolder(self._runs / run)
        if not folder.has("experiment.json"):
            return None
        done = folder.has("report.json")
        return JobState(id=run, state="done" if done else "interrupted", step="report" if done else "unknown")

    def report(self, run: str) -> Report | None:
        """The report of a run that has one."""
        folder = RunFolder(self._runs / run)
        return folder.read("report.json", Report) if folder.has("report.json") else None

    async def close(self) -> None:
        """Ends what runs; its folder keeps the files of the steps that were done."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, folder: RunFolder) -> None:
        run = folder.path.name

        def tell(step: str) -> None:
            self._set(JobState(id=run, state="running", step=step))

        try:
            async with connected(self._gateway, self._transport) as client:
                outcome = await evaluate(client, folder, tell)
        except EvaluationError as error:
            self._end(run, "failed", str(error))
        except asyncio.CancelledError:
            self._end(run, "interrupted", "the service was stopped")
            raise
        except Exception:
            # Not rendered by any route: without this the job would read as running for ever.
            logger.exception("unforeseen error in an experiment")
            self._end(run, "failed", "an error that we did not foresee; the logs have it")
        else:
            self._end(run, "done", "; ".join(outcome.warnings))

    def _end(self, run: str, state: Literal["done", "failed", "interrupted"], detail: str) -> None:
        self._set(JobState(id=run, state=state, step=self._states[run].step, detail=detail))

    def _set(self, state: JobState) -> JobState:
        self._states[state.id] = state
        return state
