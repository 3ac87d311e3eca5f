"""HTTP routes that start, list and report experiments, and compare runs. Jobs run experiments."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Request

from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.report.run_report import Report
from evaluator.service.comparisons import Comparisons
from evaluator.service.jobs import COMPARED_RUN, JobList, Jobs, JobState, RunId
from evaluator.service.served_files import MessagePaths
from services.chassis.app import router
from services.chassis.errors import BadInput, Conflict, NotFound
from services.chassis.requests.callers import note_run
from services.chassis.requests.handling import handled
from services.contracts.lists import Items


class ComparisonRequest(ComparisonSettings):
    """The runs to compare: names of run folders, alone or with `:PIPELINE`."""

    runs: Annotated[tuple[str, ...], Items(1, 16)]


def api_routes(jobs: Jobs, comparisons: Comparisons, paths: MessagePaths) -> APIRouter:
    """Builds the routes that answer JSON. `paths` shortens those in messages."""
    routes = router()

    @routes.post("/v1/experiments", status_code=202)
    @handled(scope="admin")
    async def start(experiment: Experiment, received: Request) -> JobState:
        if experiment.gates is not None and experiment.gates.bounds("cpu_ms"):
            raise BadInput("gates.cpu_ms: the service measures no CPU time; `run` does, with --processes.")
        state = jobs.start(await jobs.startable(experiment))
        note_run(received.scope, state.id)
        return state

    @routes.get("/v1/experiments")
    @handled(scope="search")
    async def every() -> JobList:
        return await asyncio.to_thread(lambda: JobList(experiments=tuple(jobs.states(jobs.names()))))

    @routes.get("/v1/experiments/{run:path}/report")
    @handled(scope="search")
    async def report(run: RunId) -> Report:
        try:
            written = await asyncio.to_thread(jobs.report, run) if jobs.holds(run) else None
        except EvaluationError as error:
            raise Conflict(f"{error}.") from error
        if written is None:
            raise NotFound(f"Run {run} has no report; GET /v1/experiments/{run} says how far it is.")
        return written

    @routes.get("/v1/experiments/{run:path}")
    @handled(scope="search")
    async def state(run: RunId) -> JobState:
        return await asyncio.to_thread(jobs.expect, run)

    @routes.delete("/v1/experiments/{run:path}")
    @handled(scope="admin", slow=True)
    async def cancel(run: RunId) -> JobState:
        return await jobs.cancel((await asyncio.to_thread(jobs.expect, run)).id)

    @routes.post("/v1/comparisons")
    @handled(scope="search", slow=True)
    async def comparison(request: ComparisonRequest) -> ComparisonReport:
        for word in request.runs:
            if not COMPARED_RUN.fullmatch(word):
                raise BadInput(f"runs: {word[:80]!r} is no run folder; `latest`, paths and run files are not taken.")
            if not jobs.holds(word.partition(":")[0]):
                raise NotFound(f"No run {word.partition(':')[0]} here.")
        settings = ComparisonSettings(**request.model_dump(exclude={"runs"}))
        try:
            return await comparisons.report(request.runs, settings)
        except EvaluationError as error:
            raise Conflict(paths.shortened(error)) from error

    return routes
