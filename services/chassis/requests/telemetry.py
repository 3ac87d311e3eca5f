"""Keeps the id, the timed stages and the cache hits of a request, and what its scope holds for the connection.

Reads `Cache-Control: no-store`; stores no results.
"""

import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from starlette.types import Scope

from services.chassis.requests.spans import span

REQUEST_ID_HEADER = "x-request-id"
UNIT_HEADER = "x-unit-id"
# Key of the scope: when the head of the request was read (time.monotonic). A task of a busy event loop begins later.
RECEIVED_AT = "received_at"
# Keys of the scope: whether to pause reading the connection after the answer, and whether the key sent is wrong.
PAUSES = "pauses"
WRONG_KEY = "wrong_key"
# Key of the scope: registers a callback for the caller's disconnect, where the server offers it.
WATCHES = "watches"
_HEADERS = "headers_by_name"  # key of the scope
_ACCEPTABLE_ID = re.compile(r"^[A-Za-z0-9_.-]{1,64}$")
_request_id: ContextVar[str] = ContextVar("request_id", default="-")
_timings_ms: ContextVar[dict[str, float] | None] = ContextVar("timings_ms", default=None)
_notes: ContextVar[dict[str, str]] = ContextVar("notes")

CACHED_HEADER = "x-cached-results"
NO_STORE = "no-store"
_no_store: ContextVar[bool] = ContextVar("fresh", default=False)
# By backend that reported them, "" for a cache of this process: hits, and results looked up.
_lookups: ContextVar[dict[str, tuple[int, int]] | None] = ContextVar("looked_up", default=None)
_COUNTS = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")

PROBES = ("/livez", "/readyz", "/metrics")


def headers_of(scope: Scope) -> Mapping[str, str]:
    """Returns the headers of a request by their names in lower case; of several, the first.

    Starlette's Headers goes through all of them, in Python, each time that one is looked up.
    """
    headers: dict[str, str] | None = scope.get(_HEADERS)
    if headers is None:
        pairs = reversed(scope["headers"])
        headers = scope[_HEADERS] = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
    return headers


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
    """Times a stage of the current request, a span of its trace. `stage` is a token (letters, digits, `-_.`)."""
    start = time.perf_counter()
    try:
        with span(stage):
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


def begin_notes() -> Mapping[str, str]:
    """Begins what the log line of a request has beside its route. Returns what will be noted."""
    notes: dict[str, str] = {}
    _notes.set(notes)
    return notes


def note(**fields: str) -> None:
    """Adds fields to the log line of the current request. Their values are configured names, never a caller's."""
    _notes.get().update(fields)


def no_store_requested() -> bool:
    """Returns whether the current request has `Cache-Control: no-store`."""
    return _no_store.get()


def record_lookups(hits: int, results: int, backend: str = "") -> None:
    """Records for the current request that `hits` of `results` came from a cache: this process's or a backend's."""
    lookups = _lookups.get()
    if lookups is not None:
        hits_before, results_before = lookups.get(backend, (0, 0))
        lookups[backend] = (hits_before + hits, results_before + results)


def pass_on_lookups(backend: str, header: str | None) -> None:
    """Records the counts in `X-Cached-Results` of a backend's answer. Ignores a header of another form."""
    counts = _COUNTS.fullmatch(header or "")
    if counts is not None and int(counts[1]) <= int(counts[2]):
        record_lookups(int(counts[1]), int(counts[2]), backend)


def begin_lookups(cache_control: str) -> Mapping[str, tuple[int, int]]:
    """Reads the header Cache-Control of a request. Returns what will be recorded of its lookups."""
    _no_store.set(NO_STORE in (directive.strip() for directive in cache_control.lower().split(",")))
    lookups: dict[str, tuple[int, int]] = {}
    _lookups.set(lookups)
    return lookups


def lookups_header(lookups: Mapping[str, tuple[int, int]]) -> str:
    """Returns `<hits>/<of>`, or `<backend>=<hits>/<of>, …` where backends reported it."""
    return ", ".join(
        f"{backend}={hits}/{results}" if backend else f"{hits}/{results}"
        for backend, (hits, results) in sorted(lookups.items())
    )
