"""Owns caching on the wire: reads `Cache-Control: no-store`, and reports cache hits. Does not store results."""

import re
from collections.abc import Mapping
from contextvars import ContextVar

CACHED_HEADER = "x-cached-results"
NO_STORE = "no-store"

_no_store: ContextVar[bool] = ContextVar("fresh", default=False)
# By backend that reported them, "" for a cache of this process: hits, and results looked up.
_lookups: ContextVar[dict[str, tuple[int, int]] | None] = ContextVar("looked_up", default=None)
_COUNTS = re.compile(r"([0-9]{1,9})/([0-9]{1,9})")


def no_store_requested() -> bool:
    """Returns whether the current request has `Cache-Control: no-store`."""
    return _no_store.get()


def record_lookups(hits: int, of: int, backend: str = "") -> None:
    """Records for the current request that `hits` of `of` results came from a cache: this process's or a backend's."""
    lookups = _lookups.get()
    if lookups is not None:
        hits_before, of_before = lookups.get(backend, (0, 0))
        lookups[backend] = (hits_before + hits, of_before + of)


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
        f"{backend}={hits}/{of}" if backend else f"{hits}/{of}" for backend, (hits, of) in sorted(lookups.items())
    )
