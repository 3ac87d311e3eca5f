"""Composes the evaluator's HTTP service: the only module that knows its parts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import APIRouter, FastAPI

from evaluator.comparison_cache import ComparisonCache
from evaluator.jobs import Jobs
from evaluator.page_routes import page_routes
from evaluator.routes import comparison_routes, experiment_routes
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
        comparisons = ComparisonCache(settings.runs)

        async def readiness() -> tuple[Check, ...]:
            # Ready without a gateway: a missing one is reported in the experiment's state.
            return (Check(name="runs", ok=True, detail=str(settings.runs)),)

        try:
            routers = [experiment_routes(jobs), comparison_routes(settings.runs), page_routes(jobs, comparisons)]
            yield routers, readiness
        finally:
            await comparisons.close()
            await jobs.close()

    return create_app("evaluator", settings, Instruments(), opened)


def main() -> None:
    """Serves until a signal ends the process."""
    start("evaluator", EvaluatorSettings, build_app)
