"""Runs an app as a process: one event loop, JSON logs, and a graceful shutdown on SIGTERM."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from types import FrameType

import uvicorn
from fastapi import FastAPI
from starlette.types import Scope

from services.chassis.server.connections import ConnectionBounds, Connections, raise_file_limit
from services.chassis.server.forwarded import forwarded_headers
from services.chassis.server.http_protocol import BoundedHttp
from services.chassis.server.logs import configure_logs
from services.chassis.server.metrics_port import serving_metrics
from services.chassis.server.tls import Certificate, certificate_of
from services.chassis.server.tls_connection import TlsFactory
from services.chassis.settings.configuration import ConfigurationError, configuration_errors
from services.chassis.settings.service_settings import ServiceSettings

logger = logging.getLogger(__name__)

# Objects before each generation of the cycle collector runs. A search makes thousands of tuples and hardly a cycle:
# with the default of 700 the collector took a tenth of the gateway's time on hybrid searches.
GC_THRESHOLD = (50_000, 20, 50)


class DrainingServer(uvicorn.Server):
    """Bounds its connections. On SIGTERM fails /readyz, waits `drain_s` until callers leave, and finishes requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        drain_s: float,
        bounds: ConnectionBounds | None = None,
        certificate: Certificate | None = None,
        forwarded: Callable[[Scope], None] = lambda _: None,
    ) -> None:
        super().__init__(config)
        self.server_state: Connections = Connections(
            bounds or ConnectionBounds(), app.state.instruments, app.state.early_refusals.of, forwarded
        )
        self._lifecycle = app.state.lifecycle
        self._drain_s = drain_s
        self._certificate = certificate
        self.opened = AsyncExitStack()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the port. Exits with status 1 if it cannot, in place of uvicorn's 3."""
        try:
            await super().startup(sockets)
        except SystemExit as error:
            raise SystemExit(1) from error

    async def on_tick(self, counter: int) -> bool:
        """Once a second, enforces the bounds of connections and looks for a new certificate.

        uvicorn calls this ten times a second.
        """
        if counter % 10 == 0:
            self.server_state.enforce_bounds(asyncio.get_running_loop().time())
            if self._certificate is not None:
                self._certificate.refresh()
        return await super().on_tick(counter)

    def _log_started_message(self, listeners: Sequence[socket.SocketType]) -> None:
        """Logs where it listens. uvicorn, which does not know of our TLS, would log http."""
        scheme = "http" if self._certificate is None else "https"
        for listener in listeners:
            host, port = listener.getsockname()[:2]
            logger.info("listening on %s://%s:%d", scheme, f"[{host}]" if ":" in host else host, port)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Drains on the first signal, and stops at once on the second."""
        if self._lifecycle.draining or not self._drain_s or sig == signal.SIGINT:
            self._lifecycle.draining = True
            super().handle_exit(sig, frame)
            return
        self._lifecycle.draining = True
        threading.Timer(self._drain_s, super().handle_exit, (sig, frame)).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes running requests and closes what was opened, because uvicorn then raises the signal again."""
        await super().shutdown(sockets)
        await self.opened.aclose()
        logger.info("all that was opened is closed")


def serve(service: str, app: FastAPI, settings: ServiceSettings) -> None:
    """Serves until a signal. Raises ConfigurationError if the app cannot be opened with its configuration.

    Exits with status 1 if the port is in use, with 3 after an unforeseen error at the start; both are logged.
    """
    configure_logs(service, settings.log_level)
    raise_file_limit(settings.max_connections)
    server = build_server(app, settings)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(open_and_serve(app, server, settings))
    if not server.started:
        sys.exit(3)


def build_server(app: FastAPI, settings: ServiceSettings, bounds: ConnectionBounds | None = None) -> DrainingServer:
    """Builds the server of a process; `bounds` of None means the default bounds of connections.

    Raises ConfigurationError for a certificate that cannot be used.
    """
    certificate = certificate_of(settings, app.state.instruments)
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # ours are applied earlier
        http=BoundedHttp if certificate is None else TlsFactory(BoundedHttp, certificate.context),  # type: ignore[arg-type]
        ws="none",
        timeout_graceful_shutdown=settings.grace_s,
        lifespan="off",  # open_and_serve enters it, so that we report a failure to open
    )
    bounds = bounds or ConnectionBounds(most=settings.max_connections)
    forwarded = forwarded_headers(settings.proxies)
    return DrainingServer(config, app, settings.drain_s, bounds, certificate, forwarded)


async def open_and_serve(app: FastAPI, server: DrainingServer, settings: ServiceSettings) -> None:
    """Enters the app's lifespan and serves, its metrics too; the lifespan ends with the server.

    Raises ConfigurationError if the app cannot be opened with its configuration; logs any other failure to open.
    """
    async with server.opened as opened:
        try:
            with configuration_errors():
                await opened.enter_async_context(app.router.lifespan_context(app))
            await opened.enter_async_context(serving_metrics(app.state.instruments, settings))
        except ConfigurationError:
            raise
        except Exception as error:
            logger.error("cannot start: %s", error, exc_info=error)
            return
        # Objects made at the start live as long as the process. Frozen, they are not scanned by each full garbage
        # collection, which took 54 ms in the gateway and delayed the requests of that time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        await server.serve()
