"""Caches of results as callers see them: who wants fresh results gets them, and every answer says what was cached."""

from contextvars import ContextVar

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.chassis.instruments import Instruments

CACHED_HEADER = "x-cached-results"
NO_STORE = "no-store"

_fresh: ContextVar[bool] = ContextVar("fresh", default=False)
_looked_up: ContextVar[list[tuple[int, int]] | None] = ContextVar("looked_up", default=None)


def fresh_wanted() -> bool:
    """Whether the request being served says `Cache-Control: no-store`."""
    return _fresh.get()


def looked_up(hits: int, of: int) -> None:
    """Tells the caller of the request being served that `hits` of `of` results came from a cache."""
    lookups = _looked_up.get()
    if lookups is not None:
        lookups.append((hits, of))


class CachingMiddleware:
    """Reads Cache-Control; writes `X-Cached-Results: <hits>/<of>` where a cache was asked, and counts both."""

    def __init__(self, app: ASGIApp, *, instruments: Instruments) -> None:
        self.app = app
        self.instruments = instruments

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        directives = Headers(scope=scope).get("cache-control", "").lower().split(",")
        _fresh.set(NO_STORE in (directive.strip() for directive in directives))
        lookups: list[tuple[int, int]] = []
        _looked_up.set(lookups)

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start" and lookups:
                hits, of = (sum(column) for column in zip(*lookups, strict=True))
                MutableHeaders(scope=message)[CACHED_HEADER] = f"{hits}/{of}"
                self.instruments.cached.labels("hit").inc(hits)
                self.instruments.cached.labels("miss").inc(of - hits)
            await send(message)

        await self.app(scope, receive, answer)
