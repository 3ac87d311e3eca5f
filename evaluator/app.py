"""Composes the evaluator's HTTP service: the only module that knows its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import APIRouter, FastAPI

from evaluator.comparison_cache import ComparisonCache
from evaluator.computing_lock import ComputingLock
from evaluator.jobs import Jobs
from evaluator.judging_routes import judging_routes
from evaluator.judging_work import slow_work
from evaluator.page_answers import PageAnswers
from evaluator.page_routes import page_routes
from evaluator.pages.environment import page_environment
from evaluator.pages.judging_pages import JudgingPages
from evaluator.pages.service_pages import ServicePages
from evaluator.routes import comparison_routes, experiment_routes
from evaluator.served_sessions import ServedSessions
from evaluator.settings import EvaluatorSettings
from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.start import start
from services.contracts.health import Check


def build_app(settings: EvaluatorSettings, transport: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """Builds the service; `transport` leads to a gateway in the same process (tests)."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[list[APIRouter], Readiness]]:
        jobs = Jobs(settings.runs, settings.gateway_url, transport)
        lock = ComputingLock(settings.runs)
        comparisons, slow = ComparisonCache(settings.runs, lock), slow_work(lock)
        environment = page_environment()
        pages = ServicePages(environment)
        answers = PageAnswers(pages)

        async def readiness() -> tuple[Check, ...]:
            # Ready without a gateway: a missing one is reported in the experiment's state.
            return (Check(name="runs", ok=True, detail=str(settings.runs)),)

        try:
            routers = [
                experiment_routes(jobs),
                comparison_routes(comparisons, settings.runs),
                page_routes(jobs, comparisons, pages, answers),
                judging_routes(jobs, ServedSessions(settings.runs), JudgingPages(environment), answers, slow, lock),
            ]
            yield routers, readiness
        finally:
            await slow.close()
            await comparisons.close()
            await jobs.close()

    return create_app("evaluator", settings, Instruments(), opened)


def main() -> None:
    """Serves until a signal ends the process."""
    start("evaluator", EvaluatorSettings, build_app)
