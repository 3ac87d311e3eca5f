"""Runs an app as a process: settings, one event loop, JSON logs, and a graceful shutdown on SIGTERM."""

import asyncio
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime
from ipaddress import IPv4Network, IPv6Network
from types import FrameType
from typing import Any, TypeVar

import orjson
import uvicorn
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from services.chassis.instruments import Instruments
from services.chassis.probes import EXPOSITION
from services.chassis.requests.telemetry import request_id
from services.chassis.server.connections import ConnectionBounds, Connections, raise_file_limit
from services.chassis.server.http_protocol import BoundedHttp
from services.chassis.server.tls import Certificate, TlsFactory, certificate_of
from services.chassis.settings.configuration import ConfigurationError, configuration_errors, read_settings
from services.chassis.settings.service_settings import ServiceSettings

logger = logging.getLogger(__name__)

Settings = TypeVar("Settings", bound=ServiceSettings)

# Objects before each generation of the cycle collector runs. A search makes thousands of tuples and hardly a cycle:
# with the default of 700 the collector took a tenth of the gateway's time on hybrid searches.
GC_THRESHOLD = (50_000, 20, 50)
# Of the port of metrics: monitoring needs connections for a few scrapers.
METRICS_BOUNDS = ConnectionBounds(most=64, reserve=8)

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}


class JsonFormatter(logging.Formatter):
    """Formats `time, level, service, logger, message, request_id`, the `extra` fields, and `error` with its trace."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self.service = service

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "service": self.service,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": request_id(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


class DrainingServer(uvicorn.Server):
    """Bounds its connections. On SIGTERM fails /readyz, waits `drain_s` until callers leave, and finishes requests.

    `metrics`: configures a port for monitoring alone, in plain HTTP, within the bounds of connections.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        drain_s: float,
        bounds: ConnectionBounds,
        certificate: Certificate | None = None,
        forwarded: Callable[[Scope], None] = lambda _: None,
        metrics: uvicorn.Config | None = None,
    ) -> None:
        super().__init__(config)
        self.server_state: Connections = Connections(bounds, app.state.instruments, app.state.early_refusal, forwarded)
        # The metrics leave out the connections of monitoring itself.
        self.metrics_state = Connections(METRICS_BOUNDS, Instruments())
        self._metrics = metrics
        self._lifecycle = app.state.lifecycle
        self._drain_s = drain_s
        self._certificate = certificate
        self.opened = AsyncExitStack()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Opens the ports. Exits with status 1 if it cannot open the main one, in place of uvicorn's 3.

        Raises ConfigurationError if it cannot open the port of metrics.
        """
        monitored = [] if self._metrics is None else [await self._opened_for_metrics(self._metrics)]
        try:
            await super().startup(sockets)
        except SystemExit as error:
            raise SystemExit(1) from error
        self.servers += monitored

    async def _opened_for_metrics(self, config: uvicorn.Config) -> asyncio.Server:
        config.load()
        try:
            return await asyncio.get_running_loop().create_server(
                lambda: BoundedHttp(config, self.metrics_state, {}), config.host, config.port
            )
        except OSError as error:
            raise ConfigurationError(
                f"…_METRICS_PORT={config.port} cannot be opened on {config.host} ({error.strerror}); set another one."
            ) from error

    async def on_tick(self, counter: int) -> bool:
        """Enforces the bounds of connections and looks for a new certificate; once a second, at one of ten calls."""
        if counter % 10 == 0:
            for connections in (self.server_state, self.metrics_state):
                connections.enforce_bounds(asyncio.get_running_loop().time())
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
        drains, self._lifecycle.draining = self._lifecycle.draining, True
        if drains or not self._drain_s or sig == signal.SIGINT:
            super().handle_exit(sig, frame)
            return
        # Callers that keep a connection leave it with their next answer: a request could meet its end.
        self.server_state.draining = True
        end = threading.Timer(self._drain_s, super().handle_exit, (sig, frame))
        end.daemon = True  # else the process waits for it after a second signal, too
        end.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finishes running requests and closes what was opened, because uvicorn then raises the signal again."""
        for scraper in list(self.metrics_state.connections):
            scraper.transport.abort()
        await super().shutdown(sockets)
        await self.opened.aclose()
        logger.info("all that was opened is closed")


def start(service: str, settings: type[Settings], build: Callable[[Settings], FastAPI]) -> None:
    """Reads a process's settings, builds its app and serves it until a signal. Every deployable starts here.

    Exits with status 1 and one sentence on standard error if a setting is wrong or the configuration cannot be used;
    with status 1 if the port is in use, with 3 after an unforeseen error at the start, which both are logged.
    """
    try:
        read = read_settings(settings)
        with configuration_errors():
            app = build(read)
        _configure_logs(service, read.log_level)
        raise_file_limit(read.max_connections)
        server = build_server(app, read)
        with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
            runner.run(open_and_serve(app, server))
    except ConfigurationError as error:
        sys.exit(f"{service}: cannot start: {error}")
    except KeyboardInterrupt:  # Ctrl-C: raised again after the end
        sys.exit(130)
    if not server.started:
        sys.exit(3)


def _configure_logs(service: str, level: str) -> None:
    """Sends all logs to standard output as JSON; those of HTTP clients only from warnings up."""
    # Fields that our lines lack and every record would look up (docs.python.org/3/howto/logging.html, "Optimization").
    logging._srcfile = None  # a documented switch, whatever its name
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonFormatter(service))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for chatty in ("httpx", "uvicorn.access"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def build_server(app: FastAPI, settings: ServiceSettings, bounds: ConnectionBounds | None = None) -> DrainingServer:
    """Builds the server of a process; `bounds` of None means the default bounds of connections.

    Raises ConfigurationError for a certificate that cannot be used.
    """
    certificate = certificate_of(settings, app.state.instruments)
    http: Any = BoundedHttp if certificate is None else TlsFactory(BoundedHttp, certificate.context)
    bounds = bounds or ConnectionBounds(most=settings.max_connections)
    forwarded = _forwarded_headers(settings.proxies)
    metrics = None
    if settings.metrics_port is not None:
        metrics = _config(_metrics_app(app.state.instruments), settings, settings.metrics_port, BoundedHttp)
    config = _config(app, settings, settings.port, http)
    return DrainingServer(config, app, settings.drain_s, bounds, certificate, forwarded, metrics)


def _config(app: ASGIApp, settings: ServiceSettings, port: int, http: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=settings.host,
        port=port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # ours are applied earlier
        http=http,
        ws="none",
        timeout_graceful_shutdown=settings.grace_s,
        lifespan="off",  # open_and_serve enters it, so that we report a failure to open
    )


def _metrics_app(instruments: Instruments) -> ASGIApp:
    async def metrics(_: Request) -> Response:
        return Response(instruments.exposition(), media_type=EXPOSITION)

    app = Starlette(routes=[Route("/metrics", metrics)])
    app.router.redirect_slashes = False
    return app


def _forwarded_headers(proxies: Sequence[IPv4Network | IPv6Network]) -> Callable[[Scope], None]:
    """Returns a function that sets a request's client and scheme by the headers X-Forwarded-For and -Proto of proxies.

    It calls uvicorn's middleware. In its usual place, around the app, that would run after the early refusals, which
    would count all callers behind a proxy as one.
    """

    async def nothing(*_: object) -> None: ...

    middleware: Any = ProxyHeadersMiddleware(nothing, [str(proxy) for proxy in proxies])

    def apply(scope: Scope) -> None:
        with suppress(StopIteration):  # it awaits only the app around which it stands, which is empty here
            middleware(scope, nothing, nothing).send(None)

    return apply if proxies else lambda _: None


async def open_and_serve(app: FastAPI, server: DrainingServer) -> None:
    """Enters the app's lifespan and serves; the lifespan ends with the server.

    Raises ConfigurationError if the app cannot be opened with its configuration; logs any other failure to open.
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
        # Objects made at the start live as long as the process. Frozen, they are not scanned by each full garbage
        # collection, which took 54 ms in the gateway and delayed the requests of that time.
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLD)
        await server.serve()
