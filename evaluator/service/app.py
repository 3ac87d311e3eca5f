"""Composes the evaluator's HTTP service: the only module that knows its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime

import httpx
from fastapi import APIRouter, FastAPI

from evaluator.online.online_report import OnlineReport
from evaluator.service.background_work import BackgroundWork, ComputingLock
from evaluator.service.comparisons import Comparisons
from evaluator.service.jobs import Jobs
from evaluator.service.judging_routes import judging_routes
from evaluator.service.page_answers import PageAnswers
from evaluator.service.page_routes import online_routes, page_routes
from evaluator.service.routes import api_routes
from evaluator.service.served_files import MessagePaths, ServedDatasets
from evaluator.service.served_sessions import ServedSessions
from evaluator.settings import EvaluatorSettings
from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.server.serve import start
from services.chassis.settings.trust import caller_context
from services.contracts.health import Check


def build_app(settings: EvaluatorSettings, transport: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """Builds the service; `transport` leads to a gateway in the same process (tests).

    Raises ConfigurationError for STACK_CA_FILE.
    """
    if settings.ca_file is not None:
        caller_context(settings.ca_file)  # an authority that cannot be read ends the start, not the first run

    paths = MessagePaths([settings.runs, *settings.datasets])
    answers = PageAnswers(paths, settings.search_url, settings.journal is not None)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[list[APIRouter], Readiness]]:
        datasets, lock = ServedDatasets(settings.datasets), ComputingLock(settings.runs)
        jobs = Jobs(settings.runs, settings.gateway_url, datasets, paths, transport, settings.access)
        comparisons, sessions = Comparisons(settings.runs, lock), ServedSessions(settings.runs)
        making = BackgroundWork[str, str](lock, "a new session of judging")
        reading = BackgroundWork[datetime, list[OnlineReport]](lock, "a report of online experiments")
        measuring = BackgroundWork[str, None](lock, "the quality of a run")

        async def readiness() -> tuple[Check, ...]:
            # Ready without a gateway: a missing one is reported in the experiment's state.
            return (Check(name="runs", ok=True),)

        try:
            routers = [
                api_routes(jobs, comparisons, paths),
                page_routes(jobs, comparisons, datasets, answers, lambda run: run in measuring.at_work()),
                online_routes(settings.journal, reading, answers),
                judging_routes(jobs, sessions, answers, making, measuring),
            ]
            yield routers, readiness
        finally:
            for work in (making, measuring, reading, comparisons):
                await work.close()
            await jobs.close()

    return create_app("evaluator", settings, Instruments(), opened, page_wording=answers.problem)


def main() -> None:
    """Serves until a signal ends the process."""
    start("evaluator", EvaluatorSettings, build_app)
