"""Puts the gateway together: the only file that knows how its backends are reached."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from gateway.backends import EndpointsFor, opened_backends
from gateway.catalog import Catalog
from gateway.collections import Collections
from gateway.execute import Executor
from gateway.generations import LOOK_S, Generations
from gateway.indexing import Indexing
from gateway.publishing import Publishing
from gateway.reloading import reloading_on_hangup
from gateway.routes import collection_routes, pipeline_routes, search_routes
from gateway.settings import BackendAddress, Settings
from gateway.sockets import SocketEndpoints
from gateway.write_pauses import WritePauses
from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.supervised import Supervisor
from services.contracts.health import Check


def over_sockets(_: str, backend: BackendAddress) -> SocketEndpoints:
    """The production endpoints."""
    return SocketEndpoints(backend)


def build_app(settings: Settings, endpoints_for: EndpointsFor = over_sockets) -> FastAPI:
    """The gateway. A pipeline that does not fit the backends ends the start with its file's name.

    `endpoints_for` says how each backend is reached; tests put whole services (ASGI) or faults there.
    """
    catalog = Catalog(settings.pipelines, settings.backends, inline=settings.inline_pipelines)
    instruments = Instruments()

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async with (
            Supervisor(instruments) as supervisor,
            opened_backends(settings.backends, endpoints_for, settings.connect_s, supervisor) as backends,
        ):
            generations = Generations(backends)
            await generations.refresh(LOOK_S)
            generations.keep_fresh(supervisor, settings.refresh_s)
            pauses = WritePauses()
            publishing = Publishing(backends, generations, pauses, settings.keep_previous_s)
            supervisor.start("retire", publishing.retire_for_ever)
            executor = Executor(backends, generations, catalog, instruments)
            routes = (
                search_routes(executor),
                pipeline_routes(catalog),
                collection_routes(
                    Collections(backends, generations), Indexing(backends, generations, pauses), publishing
                ),
            )

            async def readiness() -> tuple[Check, ...]:
                # One retriever suffices: what else is gone is degraded and flagged, and must not take us down too.
                gone = [f"{name}: {look.reason}" for name, look in generations.looks.items() if not look.reachable]
                return (Check(name="retrievers", ok=len(gone) < len(generations.looks), detail="; ".join(gone)),)

            with reloading_on_hangup(catalog):
                yield routes, readiness

    return create_app("gateway", settings, instruments, opened, cors_origins=settings.cors_origins)
