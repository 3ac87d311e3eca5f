"""Composition root of the evaluator's HTTP service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import APIRouter, FastAPI

from evaluator.jobs import Jobs
from evaluator.routes import experiment_routes
from evaluator.settings import Settings
from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.start import start
from services.contracts.health import Check


def build_app(settings: Settings, transport: httpx.AsyncBaseTransport | None = None) -> FastAPI:
    """The service; `transport` leads to the gateway where that is in the same process (tests)."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[list[APIRouter], Readiness]]:
        jobs = Jobs(settings.runs, settings.gateway_url, transport)

        async def readiness() -> tuple[Check, ...]:
            # The gateway is no condition: an evaluator without one is ready to say so in an experiment's state.
            return (Check(name="runs", ok=True, detail=str(settings.runs)),)

        try:
            yield [experiment_routes(jobs)], readiness
        finally:
            await jobs.close()

    return create_app("evaluator", settings, Instruments(), opened)


def main() -> None:
    """Serves until a signal ends the process."""
    start("evaluator", Settings, build_app)
