"""HTTP routes that start, list and report experiments, and compare runs. Jobs run experiments."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request
from pydantic import AfterValidator, Field

from evaluator.client.client import GatewayError
from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.report.run_report import Report
from evaluator.service.comparison_cache import ComparisonCache
from evaluator.service.job_state import COMPARED_RUN, JobList, JobState, RunId
from evaluator.service.jobs import ExperimentRunning, Jobs, NotCancellable
from evaluator.service.message_paths import MessagePaths
from services.chassis.app import router
from services.chassis.errors import BadInput, Conflict, NotFound, Unavailable, UnknownPipeline
from services.chassis.requests.callers import note_run
from services.chassis.requests.handling import handled
from services.contracts.lists import Items


def _expect_run(word: str) -> str:
    if not COMPARED_RUN.fullmatch(word):
        raise ValueError(
            "must be the name of a run folder (SUITE/DATASET of a run over several), alone or with :PIPELINE; "
            "`latest`, paths and run files are not taken"
        )
    return word


Compared = Annotated[
    str, AfterValidator(_expect_run), Field(json_schema_extra={"pattern": f"^{COMPARED_RUN.pattern}$"})
]


class ComparisonRequest(ComparisonSettings):
    """The runs to compare, each `RUN` or `RUN:PIPELINE`, as the command `compare` takes them."""

    runs: Annotated[tuple[Compared, ...], Items(1, 16)]


def experiment_routes(jobs: Jobs) -> APIRouter:
    """Builds the routes over the jobs of this process."""
    routes = router()

    @routes.post("/v1/experiments", status_code=202)
    @handled(scope="admin")
    async def start(experiment: Experiment, received: Request) -> JobState:
        if experiment.gates is not None and experiment.gates.cpu_ms is not None:
            raise BadInput("gates.cpu_ms: the service measures no CPU time; `run` does, with --processes.")
        try:
            state = jobs.start(await jobs.startable(experiment))
        except ExperimentRunning as error:
            raise Conflict(str(error)) from error
        except GatewayError as error:
            raise (UnknownPipeline if error.status == 404 else Unavailable)(str(error)) from error
        except EvaluationError as error:
            raise BadInput(str(error)) from error
        except OSError as error:
            raise Unavailable(jobs.write_error_message(error)) from error
        note_run(received.scope, state.id)
        return state

    @routes.get("/v1/experiments")
    @handled(scope="search")
    async def every() -> JobList:
        return await asyncio.to_thread(jobs.every)

    @routes.get("/v1/experiments/{run:path}/report")
    @handled(scope="search")
    async def report(run: RunId) -> Report:
        try:
            found = await asyncio.to_thread(jobs.report, run) if jobs.holds(run) else None
        except EvaluationError as error:
            raise Conflict(f"{error}.") from error
        if found is None:
            raise NotFound(f"Run {run} has no report; GET /v1/experiments/{run} says how far it is.")
        return found

    @routes.get("/v1/experiments/{run:path}")
    @handled(scope="search")
    async def state(run: RunId) -> JobState:
        found = await asyncio.to_thread(jobs.state, run)
        if found is None:
            raise NotFound(f"No run {run} here; POST /v1/experiments starts one.")
        return found

    @routes.delete("/v1/experiments/{run:path}")
    @handled(scope="admin", slow=True)
    async def cancel(run: RunId) -> JobState:
        if await asyncio.to_thread(jobs.state, run) is None:
            raise NotFound(f"No run {run} here; GET /v1/experiments lists all.")
        try:
            return await jobs.cancel(run)
        except NotCancellable as error:
            raise Conflict(str(error)) from error

    return routes


def comparison_routes(jobs: Jobs, comparisons: ComparisonCache, paths: MessagePaths) -> APIRouter:
    """Builds the route that compares runs. `paths` shortens those in messages."""
    routes = router()

    @routes.post("/v1/comparisons")
    @handled(scope="search", slow=True)
    async def comparison(asked: ComparisonRequest) -> ComparisonReport:
        for word in asked.runs:
            if not jobs.holds(word.partition(":")[0]):
                raise NotFound(f"No run {word.partition(':')[0]} here.")
        settings = ComparisonSettings(**asked.model_dump(exclude={"runs"}))
        try:
            return await comparisons.report(asked.runs, settings)
        except EvaluationError as error:
            raise Conflict(paths.shortened(error)) from error

    return routes
