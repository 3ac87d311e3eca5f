"""Applies what a trusted reverse proxy tells of its caller, as soon as the head of a request is read."""

from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from starlette.types import Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


class ForwardedHeaders:
    """Believes `X-Forwarded-For` and `X-Forwarded-Proto` of these proxies alone.

    uvicorn's middleware decides. In its usual place, around the app, it comes after the early refusals, for which all
    callers behind a proxy would be one.
    """

    def __init__(self, proxies: Sequence[IPv4Network | IPv6Network]) -> None:
        self._middleware = ProxyHeadersMiddleware(_nothing, [str(proxy) for proxy in proxies]) if proxies else None

    def apply(self, scope: Scope) -> None:
        """Sets the client and the scheme of a request that came from a trusted proxy."""
        if self._middleware is None:
            return
        given: Any = scope
        with suppress(StopIteration):  # it awaits only the app around which it stands, which is empty here
            self._middleware(given, _unread, _unsent).send(None)


async def _nothing(*_: object) -> None: ...


async def _unread() -> Any:
    raise AssertionError("a middleware that only looks at headers has read a body")


async def _unsent(_: object) -> None:
    raise AssertionError("a middleware that only looks at headers has answered")
