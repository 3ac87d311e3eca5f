"""Runs an app as a process: one event loop, JSON logs, and a polite end on SIGTERM."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from contextlib import AsyncExitStack
from types import FrameType

import uvicorn
from fastapi import FastAPI

from services.chassis.configuration import ConfigurationError, configuration_errors
from services.chassis.connections import ConnectionBounds, Connections, raise_file_limit
from services.chassis.http_protocol import BoundedHttp
from services.chassis.logs import configure_logs
from services.chassis.settings import ServiceSettings

logger = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """Bounds its connections; on SIGTERM fails /readyz, waits `drain_s` for callers to turn away, lets work end."""

    def __init__(
        self, config: uvicorn.Config, app: FastAPI, drain_s: float, bounds: ConnectionBounds | None = None
    ) -> None:
        super().__init__(config)
        self.server_state: Connections = Connections(bounds or ConnectionBounds(), app.state.instruments)
        self._lifecycle = app.state.lifecycle
        self._drain_s = drain_s
        self.opened = AsyncExitStack()

    async def on_tick(self, counter: int) -> bool:
        """Uvicorn calls it ten times a second; once of these the connections are looked at."""
        if counter % 10 == 0:
            self.server_state.enforce_bounds(asyncio.get_running_loop().time())
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, a second one ends at once."""
        if self._lifecycle.draining or not self._drain_s or sig == signal.SIGINT:
            self._lifecycle.draining = True
            super().handle_exit(sig, frame)
            return
        self._lifecycle.draining = True
        threading.Timer(self._drain_s, super().handle_exit, (sig, frame)).start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Lets requests in work end, then closes what was opened: right after this, uvicorn raises the signal again."""
        await super().shutdown(sockets)
        await self.opened.aclose()
        logger.info("all that was opened is closed")


def serve(service: str, app: FastAPI, settings: ServiceSettings) -> None:
    """Serves until a signal ends it. Raises ConfigurationError when the app cannot be opened with its configuration.

    A port in use ends the process with status 1, an unforeseen error at the start with 3; both are logged.
    """
    configure_logs(service, settings.log_level)
    raise_file_limit(settings.max_connections)
    server = server_of(app, settings)
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(opened_and_served(app, server))
    if not server.started:
        sys.exit(3)


def server_of(app: FastAPI, settings: ServiceSettings, bounds: ConnectionBounds | None = None) -> DrainingServer:
    """The server that a process runs; `bounds` of a connection are the default ones when not given."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        http=BoundedHttp,
        ws="none",
        timeout_graceful_shutdown=settings.grace_s,
        lifespan="off",  # entered below, where a failure to open is ours to tell
    )
    return DrainingServer(config, app, settings.drain_s, bounds or ConnectionBounds(most=settings.max_connections))


async def opened_and_served(app: FastAPI, server: DrainingServer) -> None:
    """Enters the app's lifespan and serves; what was opened ends with the server.

    Raises ConfigurationError when the app cannot be opened with its configuration; logs any other failure to open.
    """
    async with server.opened as opened:
        try:
            with configuration_errors():
                await opened.enter_async_context(app.router.lifespan_context(app))
        except ConfigurationError:
            raise
        except Exception as error:
            logger.error("cannot start: %s", error, exc_info=error)
            return
        # What the start has made stays for good. A full collection would look through it all, 54 ms in the gateway, and
        # whatever request is being served waits for that.
        gc.collect()
        gc.freeze()
        await server.serve()
