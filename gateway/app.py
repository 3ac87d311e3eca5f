"""Composes the gateway. The only module that knows how its backends are reached."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext, suppress
from urllib.parse import urlsplit

from fastapi import APIRouter, FastAPI

from gateway.backends.wire import EndpointsFor, open_backends
from gateway.collections.collections import Collections
from gateway.collections.generations import POLL_TIMEOUT_S, Generations
from gateway.collections.indexing import Indexing
from gateway.collections.publish_jobs import PublishJobs
from gateway.collections.publishing import Publishing
from gateway.collections.write_order import CollectionLocks, WriteClock, WritePauses
from gateway.instruments import GatewayInstruments
from gateway.online.journal import Journal
from gateway.routes import collection_routes, event_routes, pipeline_routes, search_routes
from gateway.search.admission import Admission
from gateway.search.catalog import Catalog
from gateway.search.execute import Executor
from gateway.search.long_answers import LongAnswers
from gateway.search_page.routes import page_files, page_routes
from gateway.settings import BackendAddress, GatewaySettings
from services.chassis.app import create_app
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.sockets import SocketTransport
from services.chassis.probes import Readiness
from services.chassis.settings.trust import caller_context
from services.contracts.health import Check

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class SocketEndpoints:
    """Resolves a backend's host name and opens sockets. Each address record is one replica."""

    def __init__(
        self, backend: BackendAddress, resolve: Resolve | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        """`context`: of TLS, for a URL with https; it has to check host names. None: the system's authorities."""
        self._context = context
        self.url = backend.url
        self._url = urlsplit(backend.url)
        self._resolve = resolve or resolve_host

    async def addresses(self) -> Sequence[str]:
        """Returns the host itself if it is an IP address, else the addresses that its name resolves to."""
        host = self._url.hostname
        assert host is not None  # BackendAddress has checked the URL
        with suppress(ValueError):
            ipaddress.ip_address(host)
            return (host,)
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        return tuple(dict.fromkeys(await self._resolve(host, port)))

    def transport(self, address: str) -> SocketTransport:
        """Returns a transport to this address only, whatever the name resolves to later."""
        return SocketTransport(address, context=self._context)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolves all addresses of a host name. Raises OSError (socket.gaierror)."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in addresses]


def socket_endpoints_of(settings: GatewaySettings) -> EndpointsFor:
    """Returns how backends are reached in production: by TCP sockets, with TLS where the URL has https.

    Raises ConfigurationError for STACK_CA_FILE.
    """
    encrypted = any(backend.url.startswith("https:") for backend in settings.backends.values())
    context = caller_context(settings.ca_file) if encrypted or settings.ca_file is not None else None
    return lambda _, backend: SocketEndpoints(backend, context=context)


def build_app(settings: GatewaySettings, endpoints_for: EndpointsFor | None = None) -> FastAPI:
    """Builds the gateway's app. Raises PipelineError, naming the file, for a pipeline that does not fit the backends,
    and ConfigurationError for a file of the settings.

    `endpoints_for` returns how each backend is reached; tests pass whole services (ASGI) or faults.
    """
    reached_by = endpoints_for or socket_endpoints_of(settings)
    instruments = GatewayInstruments()
    journal = None if settings.journal is None else Journal(settings.journal, instruments)
    inline = settings.inline_pipelines
    catalog = Catalog(settings.pipelines, settings.backends, inline=inline, journal=journal is not None)
    files = page_files(settings.evaluator_url) if settings.page else None
    admission = Admission(settings.max_in_flight, settings.max_waiting, instruments, settings.rerank_share)
    long_answers = LongAnswers(lambda: admission.ordinary.begun)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async with (
            Supervisor(instruments) as supervisor,
            open_backends(
                settings.backends, reached_by, settings.connect_s, supervisor, instruments, settings.sent_token
            ) as backends,
            nullcontext() if journal is None else aclosing(journal),
        ):
            generations = Generations(backends)
            await generations.refresh(POLL_TIMEOUT_S)
            generations.start_polling(supervisor, settings.refresh_s)
            pauses = WritePauses()
            locks = CollectionLocks()
            clock = WriteClock()
            publications = PublishJobs(supervisor)
            instruments.publication_seconds.set_function(publications.longest_s)
            publishing = Publishing(backends, generations, locks, pauses, publications, settings.keep_previous_s)
            supervisor.start("retire", publishing.retire_expired_generations)
            executor = Executor(
                backends, generations, catalog, admission, instruments, journal, trace_queries=settings.trace_query_text
            )
            pages = () if files is None else (page_routes(executor, catalog, generations, files),)
            routes = (
                *pages,
                search_routes(executor, long_answers),
                event_routes(journal),
                pipeline_routes(catalog),
                collection_routes(
                    Collections(backends, generations, locks, publications),
                    Indexing(backends, generations, pauses, clock),
                    publishing,
                    long_answers,
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

            yield routes, readiness

    return create_app(
        "gateway",
        settings,
        instruments,
        opened,
        cors_origins=settings.cors_origins,
        own_lane=admission.ordinary,
        page_wording=None if files is None else files.wording(),
    )
