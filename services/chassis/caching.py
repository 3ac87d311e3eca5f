"""Owns caching on the wire: reads `Cache-Control: no-store`, and reports cache hits. Does not store results."""

from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.instruments import Instruments

CACHED_HEADER = "x-cached-results"
NO_STORE = "no-store"

_no_store: ContextVar[bool] = ContextVar("fresh", default=False)
_lookups: ContextVar[list[tuple[int, int]] | None] = ContextVar("looked_up", default=None)


def no_store_requested() -> bool:
    """Returns whether the current request has `Cache-Control: no-store`."""
    return _no_store.get()


def record_lookups(hits: int, of: int) -> None:
    """Records for the current request that `hits` of `of` results came from a cache."""
    lookups = _lookups.get()
    if lookups is not None:
        lookups.append((hits, of))


class CachingMiddleware:
    """Reads Cache-Control; writes `X-Cached-Results: <hits>/<of>` if a cache was used, and counts hits and misses."""

    def __init__(self, app: ASGIApp, *, instruments: Instruments) -> None:
        self.app = app
        self.instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        directives = Headers(scope=scope).get("cache-control", "").lower().split(",")
        _no_store.set(NO_STORE in (directive.strip() for directive in directives))
        lookups: list[tuple[int, int]] = []
        _lookups.set(lookups)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and lookups:
                hits, of = (sum(column) for column in zip(*lookups, strict=True))
                MutableHeaders(scope=message)[CACHED_HEADER] = f"{hits}/{of}"
                self.instruments.cached.labels("hit").inc(hits)
                self.instruments.cached.labels("miss").inc(of - hits)
            await send(message)

        await self.app(scope, receive, answer)
