"""Owns caching on the wire: reads `Cache-Control: no-store`, and reports cache hits. Does not store results."""

import re
from collections.abc import Mapping
from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.instruments import Instruments

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
    """Records what a backend's answer says in `X-Cached-Results`. Ignores a header that says something else."""
    counts = _COUNTS.fullmatch(header or "")
    if counts is not None and int(counts[1]) <= int(counts[2]):
        record_lookups(int(counts[1]), int(counts[2]), backend)


class CachingMiddleware:
    """Reads Cache-Control; writes `X-Cached-Results` if a cache was used, and counts hits and misses of its own.

    The header is `<hits>/<of>`, or `<backend>=<hits>/<of>, …` where backends reported it.
    """

    def __init__(self, app: ASGIApp, *, instruments: Instruments) -> None:
        self.app = app
        self.instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        directives = Headers(scope=scope).get("cache-control", "").lower().split(",")
        _no_store.set(NO_STORE in (directive.strip() for directive in directives))
        lookups: dict[str, tuple[int, int]] = {}
        _lookups.set(lookups)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and lookups:
                MutableHeaders(scope=message)[CACHED_HEADER] = _told(lookups)
                if "" in lookups:
                    hits, of = lookups[""]
                    self.instruments.cached.labels("hit").inc(hits)
                    self.instruments.cached.labels("miss").inc(of - hits)
            await send(message)

        await self.app(scope, receive, answer)


def _told(lookups: Mapping[str, tuple[int, int]]) -> str:
    return ", ".join(
        f"{backend}={hits}/{of}" if backend else f"{hits}/{of}" for backend, (hits, of) in sorted(lookups.items())
    )
