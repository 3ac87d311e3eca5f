"""HTTP routes that start an experiment, list experiments, return state and report of one. Jobs run them."""

import asyncio

from fastapi import APIRouter

from evaluator.client import GatewayError
from evaluator.errors import EvaluationError
from evaluator.experiment import Experiment
from evaluator.jobs import ExperimentRunning, JobList, Jobs, JobState, RunId
from evaluator.report import Report
from services.chassis.app import router
from services.chassis.errors import BadInput, Conflict, NotFound, Unavailable, UnknownPipeline


def experiment_routes(jobs: Jobs) -> APIRouter:
    """Builds the routes over the jobs of this process."""
    routes = router()

    @routes.post("/v1/experiments", status_code=202)
    async def start(experiment: Experiment) -> JobState:
        try:
            await jobs.expect_startable(experiment)
            return jobs.start(experiment)
        except ExperimentRunning as error:
            raise Conflict(str(error)) from error
        except GatewayError as error:
            raise (UnknownPipeline if error.status == 404 else Unavailable)(str(error)) from error
        except EvaluationError as error:
            raise BadInput(f"dataset: {error}") from error
        except OSError as error:
            raise Unavailable(f"{jobs.write_error_message(error)}; see EVALUATOR_RUNS.") from error

    @routes.get("/v1/experiments")
    async def every() -> JobList:
        return await asyncio.to_thread(jobs.every)

    @routes.get("/v1/experiments/{run}")
    async def state(run: RunId) -> JobState:
        found = jobs.state(run)
        if found is None:
            raise NotFound(f"No run {run} here; POST /v1/experiments starts one.")
        return found

    @routes.get("/v1/experiments/{run}/report")
    async def report(run: RunId) -> Report:
        try:
            found = jobs.report(run)
        except EvaluationError as error:
            raise Conflict(f"{error}.") from error
        if found is None:
            raise NotFound(f"Run {run} has no report; GET /v1/experiments/{run} says how far it is.")
        return found

    return routes
