"""Owns the id and the timed stages of the current request, and what its scope keeps for the connection."""

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from starlette.types import Scope

REQUEST_ID_HEADER = "x-request-id"
# Key of the scope: when the head of the request was read (time.monotonic). A task of a busy event loop begins later.
RECEIVED_AT = "received_at"
# Keys of the scope: whether the connection is not read for a moment after the answer, and whether the key that came
# with the request is wrong.
PAUSES = "pauses"
WRONG_KEY = "wrong_key"
# Key of the scope: how to hear at once that the caller has left, where the server offers it.
WATCHES = "watches"
_HEADERS = "headers_by_name"  # key of the scope
_ACCEPTABLE_ID = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
_request_id: ContextVar[str] = ContextVar("request_id", default="-")
_timings_ms: ContextVar[dict[str, float] | None] = ContextVar("timings_ms", default=None)

PROBES = ("/livez", "/readyz", "/metrics")


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Returns the headers of a request by their names in lower case; of several, the first.

    Starlette's Headers goes through all of them, in Python, each time that one is looked up.
    """
    found: dict[str, str] | None = scope.get(_HEADERS)
    if found is None:
        pairs = reversed(scope["headers"])
        found = scope[_HEADERS] = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    return found


def request_id() -> str:
    """Returns the id of the current request: the caller's X-Request-Id if it is well formed, else a generated one."""
    return _request_id.get()


def assign_request_id(offered: str) -> str:
    """Sets the id of the current request: the offered one if it is well formed, else a generated one. Returns it."""
    identity = offered if _ACCEPTABLE_ID.match(offered) else secrets.token_hex(16)
    _request_id.set(identity)
    return identity


def received_at(scope: Scope) -> float:
    """Returns when a request was received, by time.monotonic; now, where its server does not record it."""
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


def begin_stages() -> Mapping[str, float]:
    """Begins the stages of a request. Returns what will be recorded of them, in milliseconds."""
    timings: dict[str, float] = {}
    _timings_ms.set(timings)
    return timings
