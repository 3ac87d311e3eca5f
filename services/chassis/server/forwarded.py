"""Applies what a trusted reverse proxy reports of its caller, as soon as the head of a request is read."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Network, IPv6Network
from typing import Any

from starlette.types import Scope
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware


def forwarded_headers(proxies: Sequence[IPv4Network | IPv6Network]) -> Callable[[Scope], None]:
    """Returns what sets client and scheme of a request by `X-Forwarded-For` and `X-Forwarded-Proto` of these proxies.

    uvicorn's middleware decides. In its usual place, around the app, it comes after the early refusals, for which all
    callers behind a proxy would be one.
    """
    middleware = ProxyHeadersMiddleware(_nothing, [str(proxy) for proxy in proxies])

    def apply(scope: Scope) -> None:
        given: Any = scope
        with suppress(StopIteration):  # it awaits only the app around which it stands, which is empty here
            middleware(given, _unread, _unsent).send(None)

    return apply if proxies else lambda _: None


async def _nothing(*_: object) -> None: ...


async def _unread() -> Any:
    raise AssertionError("a middleware that only looks at headers has read a body")


async def _unsent(_: object) -> None:
    raise AssertionError("a middleware that only looks at headers has answered")
