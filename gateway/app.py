"""Composes the gateway. The only module that knows how its backends are reached."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from gateway.admission import Admission
from gateway.backends import EndpointsFor, open_backends
from gateway.catalog import Catalog
from gateway.collection_locks import CollectionLocks
from gateway.collections import Collections
from gateway.execute import Executor
from gateway.generations import POLL_TIMEOUT_S, Generations
from gateway.indexing import Indexing
from gateway.publishing import Publishing
from gateway.reloading import reloading_on_hangup
from gateway.routes import collection_routes, pipeline_routes, search_routes
from gateway.search_page.rendering import page_files
from gateway.search_page.routes import page_routes, page_wordings
from gateway.settings import BackendAddress, GatewaySettings
from gateway.sockets import SocketEndpoints
from gateway.write_pauses import WritePauses
from services.chassis.app import create_app
from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.contracts.health import Check


def socket_endpoints(_: str, backend: BackendAddress) -> SocketEndpoints:
    """Returns the endpoints of production: TCP sockets."""
    return SocketEndpoints(backend)


def build_app(settings: GatewaySettings, endpoints_for: EndpointsFor = socket_endpoints) -> FastAPI:
    """Builds the gateway's app. Raises PipelineError, naming the file, for a pipeline that does not fit the backends.

    `endpoints_for` returns how each backend is reached; tests pass whole services (ASGI) or faults.
    """
    catalog = Catalog(settings.pipelines, settings.backends, inline=settings.inline_pipelines)
    instruments = Instruments()
    files = page_files() if settings.page else None
    admission = Admission(settings.max_in_flight, settings.max_waiting, instruments)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async with (
            Supervisor(instruments) as supervisor,
            open_backends(settings.backends, endpoints_for, settings.connect_s, supervisor, instruments) as backends,
        ):
            generations = Generations(backends)
            await generations.refresh(POLL_TIMEOUT_S)
            generations.start_polling(supervisor, settings.refresh_s)
            pauses = WritePauses()
            locks = CollectionLocks()
            publishing = Publishing(backends, generations, locks, pauses, settings.keep_previous_s)
            supervisor.start("retire", publishing.retire_expired_generations)
            executor = Executor(backends, generations, catalog, admission, instruments)
            pages = () if files is None else (page_routes(executor, catalog, generations, files),)
            routes = (
                *pages,
                search_routes(executor),
                pipeline_routes(catalog),
                collection_routes(
                    Collections(backends, generations, locks), Indexing(backends, generations, pauses), publishing
                ),
            )

            async def readiness() -> tuple[Check, ...]:
                # One retriever suffices: a missing backend degrades answers visibly, but the gateway stays ready.
                gone = [
                    f"{name}: {snapshot.reason}"
                    for name, snapshot in generations.snapshots.items()
                    if not snapshot.reachable
                ]
                return (Check(name="retrievers", ok=len(gone) < len(generations.snapshots), detail="; ".join(gone)),)

            with reloading_on_hangup(catalog):
                yield routes, readiness

    return create_app(
        "gateway",
        settings,
        instruments,
        opened,
        wordings={} if files is None else page_wordings(files),
        cors_origins=settings.cors_origins,
        own_lane=admission.ordinary,
    )
