"""Serves an app on a real port of this process, for clients without ASGI."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn.server
from fastapi import FastAPI

from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.serve import DrainingServer, build_server
from services.chassis.settings.service_settings import ServiceSettings


class _ShortSleeps:
    """asyncio for uvicorn's server, which looks every 0.1 s whether it ends and at its bounds: here every 0.01 s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(delay_s: float) -> None:
        await asyncio.sleep(delay_s / 10)


uvicorn.server.asyncio = _ShortSleeps()  # type: ignore[assignment,attr-defined]


@contextmanager
def _in_a_thread(server: uvicorn.Server, run: Callable[[], None], within_s: float = 60.0) -> Iterator[None]:
    """Runs a server in a thread until the end of the block, which begins once it is ready."""
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    ends_at = time.monotonic() + within_s
    while not server.started:
        assert thread.is_alive(), "the server ended before it began"
        assert time.monotonic() < ends_at, f"the server was not ready within {within_s} s"
        time.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """Yields the address of a served app, with its lifespan entered."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    with _in_a_thread(server, server.run):
        yield f"http://127.0.0.1:{port_of(server)}"


@contextmanager
def bounded(
    app: FastAPI,
    bounds: ConnectionBounds,
    settings: ServiceSettings = ServiceSettings(port=0),  # noqa: B008  # frozen
) -> Iterator[DrainingServer]:
    """The server that our processes run, in a thread of its own, with bounds that a test need not wait for."""
    server = build_server(app, settings, bounds)

    async def open_and_serve() -> None:
        async with app.router.lifespan_context(app):
            await server.serve()

    def run() -> None:
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(open_and_serve())

    with _in_a_thread(server, run):
        try:
            yield server
        finally:
            server.force_exit = True


@asynccontextmanager
async def on_a_port(
    app: FastAPI,
    settings: ServiceSettings = ServiceSettings(port=0),  # noqa: B008  # frozen
) -> AsyncIterator[str]:
    """Serves an opened app as our processes do, on the loop on which it was opened; yields its address."""
    server = build_server(app, settings)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        assert not serving.done(), "the server ended before it began"
        await asyncio.sleep(0.01)
    try:
        scheme = "http" if settings.tls_cert_file is None else "https"
        yield f"{scheme}://127.0.0.1:{port_of(server)}"
    finally:
        server.should_exit = True
        await serving


def port_of(server: uvicorn.Server) -> int:
    """Returns the port of a running server."""
    return int(server.servers[0].sockets[0].getsockname()[1])
