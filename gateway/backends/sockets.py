"""Finds the addresses of a backend, each of which is one replica, and opens a transport to it."""

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit

from gateway.settings import BackendAddress
from services.chassis.calls.sockets import SocketTransport

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class SocketEndpoints:
    """Resolves a backend's host name and opens sockets. Each address record is one replica."""

    def __init__(
        self, backend: BackendAddress, resolve: Resolve | None = None, context: ssl.SSLContext | None = None
    ) -> None:
        """`context`: of TLS, for a URL with https; it has to check host names. None: the system's authorities."""
        self._context = context
        self.url = backend.url
        self._url = urlsplit(backend.url)
        self._resolve = resolve or resolve_host

    async def addresses(self) -> Sequence[str]:
        """Returns the host itself if it is an IP address, else the addresses that its name resolves to."""
        host = self._url.hostname
        assert host is not None  # BackendAddress has checked the URL
        if _is_ip(host):
            return (host,)
        port = self._url.port or (443 if self._url.scheme == "https" else 80)
        return tuple(dict.fromkeys(await self._resolve(host, port)))

    def transport(self, address: str) -> SocketTransport:
        """Returns a transport to this address only, whatever the name resolves to later."""
        return SocketTransport(address, context=self._context)


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """Resolves all addresses of a host name. Raises OSError (socket.gaierror)."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
