"""Owns the telemetry of one request: its id, timed stages, log line, metrics and Server-Timing header."""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.instruments import Instruments
from services.chassis.requests.audit import write_audit
from services.chassis.requests.handling import drop_trailing_slash, handling_of

logger = logging.getLogger(__name__)

REQUEST_ID_HEADER = "x-request-id"
# Key of the scope: when the head of the request was read (time.monotonic). A task of a busy event loop begins later.
RECEIVED_AT = "received_at"
# Keys of the scope: whether the connection is not read for a moment after the answer, whether the key that came with
# the request is wrong, and whether its body may hold one.
PAUSES = "pauses"
WRONG_KEY = "wrong_key"
KEY_IN_BODY = "key_in_body"
_ACCEPTABLE_ID = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
_request_id: ContextVar[str] = ContextVar("request_id", default="-")
_timings_ms: ContextVar[dict[str, float] | None] = ContextVar("timings_ms", default=None)

PROBES = ("/livez", "/readyz", "/metrics")


def request_id() -> str:
    """Returns the id of the current request: the caller's X-Request-Id if it is well formed, else a generated one."""
    return _request_id.get()


def assign_request_id(offered: str) -> str:
    """Sets the id of the current request: the offered one if it is well formed, else a generated one. Returns it."""
    identity = offered if _ACCEPTABLE_ID.match(offered) else uuid.uuid4().hex
    _request_id.set(identity)
    return identity


def received_at(scope: Scope) -> float:
    """Returns when a request was received, by time.monotonic; now, where its server does not say."""
    at: float = scope.get(RECEIVED_AT) or time.monotonic()
    return at


def record_ms(stage: str, ms: float) -> None:
    """Adds milliseconds to a stage of the current request's Server-Timing."""
    timings = _timings_ms.get()
    if timings is not None:
        timings[stage] = timings.get(stage, 0.0) + ms


def recorded_ms(stage: str) -> float:
    """Returns the milliseconds of a stage of the current request so far."""
    return (_timings_ms.get() or {}).get(stage, 0.0)


@contextmanager
def timed(stage: str) -> Iterator[None]:
    """Times a stage of the current request. `stage` is a token (letters, digits, `-_.`)."""
    start = time.perf_counter()
    try:
        yield
    finally:
        record_ms(stage, (time.perf_counter() - start) * 1000)


@contextmanager
def stages_apart() -> Iterator[None]:
    """Keeps the stages recorded within the block out of the request's Server-Timing and metrics.

    For one of several searches that a request makes: times of equal stages would add up.
    """
    outside = _timings_ms.set({})
    try:
        yield
    finally:
        _timings_ms.reset(outside)


class TelemetryMiddleware:
    """Sets the request's id, renders the errors that leave the app, and reports the result. Outermost."""

    def __init__(
        self, app: ASGIApp, *, instruments: Instruments, render: Callable[[Exception, Scope], ASGIApp]
    ) -> None:
        self.app = app
        self.instruments = instruments
        self.render = render

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        drop_trailing_slash(scope)
        identity = assign_request_id(Headers(scope=scope).get(REQUEST_ID_HEADER, ""))
        timings: dict[str, float] = {}
        _timings_ms.set(timings)
        start = received_at(scope)
        status = 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                total = (time.monotonic() - start) * 1000
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID_HEADER] = identity
                stages = [*timings.items(), ("total", total)]
                headers["server-timing"] = ", ".join(f"{name};dur={ms:.2f}" for name, ms in stages)
            await send(message)

        try:
            await self.app(scope, receive, answer)
        except Exception as error:
            if status:  # the answer has begun: the error cannot be sent, the connection must break
                logger.exception("failed while answering")
                raise
            await self.render(error, scope)(scope, receive, answer)
        finally:
            self._report(scope, status, time.monotonic() - start, timings)

    def _report(self, scope: Scope, status: int, seconds: float, timings: dict[str, float]) -> None:
        route = getattr(scope.get("route"), "path", "unmatched")
        self.instruments.observe(scope["method"], route, status, seconds, timings)
        write_audit(scope, handling_of(scope), status)
        # Refusals are only counted: at several times what a process carries, their lines would be most of its work.
        if status == 429 or scope.get(WRONG_KEY, False):
            return
        if status >= 400 or (scope["path"] not in PROBES and handling_of(scope).logged):
            logger.info(
                "request",
                extra={
                    "method": scope["method"],
                    "route": route,
                    "status": status,
                    "ms": round(seconds * 1000, 2),
                    "stages_ms": {name: round(ms, 2) for name, ms in timings.items()},
                },
            )
