"""Serves /metrics on a port of its own (X_METRICS_PORT), for monitoring alone: nothing else is there."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from services.chassis.instruments import Instruments
from services.chassis.probes import EXPOSITION
from services.chassis.server.connections import ConnectionBounds, Connections
from services.chassis.server.http_protocol import BoundedHttp
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import ServiceSettings

# Monitoring needs connections for a few scrapers.
BOUNDS = ConnectionBounds(most=64, reserve=8)
# The time that a scrape in work has when the process ends.
GRACE_S = 1


class MetricsServer(uvicorn.Server):
    """A second server on the loop of a process, within the bounds of connections. Signals are left to the first."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        # Its connections are not those that the metrics are about.
        self.server_state: Connections = Connections(BOUNDS, Instruments())
        self.is_started = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the port. Raises ConfigurationError if it cannot: uvicorn would end the process within this task."""
        try:
            await super().startup(sockets)
        except SystemExit as error:
            raise ConfigurationError(
                f"The port of metrics {self.config.port} cannot be opened on {self.config.host}, as logged before; set "
                "…_METRICS_PORT to another one."
            ) from error
        self.is_started.set()

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # uvicorn has a generator
        """Takes no signal."""
        return nullcontext()

    async def on_tick(self, counter: int) -> bool:
        """Enforces the bounds of connections once a second."""
        if counter % 10 == 0:
            self.server_state.enforce_bounds(asyncio.get_running_loop().time())
        return await super().on_tick(counter)


@asynccontextmanager
async def serving_metrics(instruments: Instruments, settings: ServiceSettings) -> AsyncIterator[MetricsServer | None]:
    """Serves /metrics within the block, if it has a port of its own. Raises ConfigurationError if it is in use."""
    if settings.metrics_port is None:
        yield None
        return

    async def metrics(_: Request) -> Response:
        return Response(instruments.exposition(), media_type=EXPOSITION)

    app = Starlette(routes=[Route("/metrics", metrics)])
    app.router.redirect_slashes = False
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.metrics_port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        http=BoundedHttp,
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
        lifespan="off",
    )
    server = MetricsServer(config)
    serving = asyncio.create_task(server.serve())
    started = asyncio.create_task(server.is_started.wait())
    await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
    if not started.done():
        started.cancel()
        await serving  # raises what hindered it
    try:
        yield server
    finally:
        server.should_exit = True
        await serving
