"""Sends HTTP/1.1 requests to one address of a backend over aiohttp. Owns its connections: reuses or closes them.

The adapter of gateway/backends/transport.py in production. httpx's own pool dies after random cancellations
(encode/httpcore 1093); aiohttp's does not (tests/faults/test_cancellation.py), at a fifth of the CPU.
"""

import asyncio
import contextlib
import ipaddress
import random
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from gateway.backends.transport import (
    READ_HEADERS,
    AnswerBroken,
    ConnectionLost,
    ConnectTimedOut,
    Incoming,
    NotConnected,
    NotTrusted,
    Outgoing,
    Probe,
)
from gateway.settings import BackendAddress
from services.chassis.settings.trust import certificate_fault

# Less than our servers keep an idle connection (75 s), or a request could go to a connection that was just closed.
KEEP_ALIVE_S = 30.0
CONNECTIONS = 128
# Connections end so that load reaches new replicas. Each ends at a random age, so that they do not all reopen at once;
# not much earlier, because behind one address a new connection may reach a broken replica.
MAX_AGE_S = (90.0, 150.0)
# For this long after a request was cancelled, a new connection must first answer a liveness probe within the timeout:
# behind one address, half of the connections may reach a hung replica. The probes run at once, because a slow but
# healthy backend answers none of them in time, and the request itself must still fit after them.
PROBE_AFTER_FAILURE_S = 30.0
PROBE_TIMEOUT_S = 0.25
PROBES_AT_ONCE = 2
# 16 MB of documents (the most in one answer) with every character escaped into six, and some more around them.
MOST_ANSWER_BYTES = 100_000_000

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

    def transport(self, address: str) -> "SocketTransport":
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


class SocketTransport:
    """Owns the connections to one address. Does not reuse one after a failure or beyond its age.

    An address may stand for several replicas (a Service of Kubernetes). A connection stays with one of them, so closing
    those that failed keeps the ones to healthy replicas.
    """

    def __init__(self, address: str, *, most: int = CONNECTIONS, context: ssl.SSLContext | None = None) -> None:
        """`context`: of TLS. The certificate is checked for the host of the URL, whatever the address."""
        self._context = context
        self._address = address
        self._most = most
        self._session: aiohttp.ClientSession | None = None
        self._in_use = 0
        self._protocols: WeakSet[ResponseHandler] = WeakSet()
        self._given_up_at = float("-inf")

    async def send(self, request: Outgoing) -> Incoming:
        """Sends a request and returns the whole answer. Raises TransportError for any fault of the connection."""
        if self._session is None:
            self._session = self._open_session()
        bounds = aiohttp.ClientTimeout(sock_connect=request.connect_s)
        known = True
        if request.probe is not None and self._must_probe():
            known = await self._probe_new_connections(self._session, request.probe, bounds)
        self._in_use += 1
        try:
            async with self._session.request(
                request.method,
                request.url,
                headers=request.headers,
                data=request.content,
                allow_redirects=False,
                timeout=bounds,
            ) as answer:
                content = await _read_bounded(answer)
        except asyncio.CancelledError:
            # After failed probes the time may have been too short because of them: that must not prolong probing.
            if known:
                self._given_up_at = time.monotonic()
            raise
        except aiohttp.ClientConnectorError as error:
            if (fault := certificate_fault(error)) is not None:
                raise NotTrusted(fault) from error
            raise NotConnected(str(error)) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectTimedOut(str(error)) from error
        except (aiohttp.ClientConnectionError, ConnectionError, TimeoutError) as error:
            raise ConnectionLost(str(error)) from error
        except Exception as error:  # the exceptions of a parser on a broken answer are no closed list
            raise AnswerBroken(str(error)) from error
        finally:
            self._in_use -= 1
        assert isinstance(answer, _TrackedResponse)
        self._protocols.add(answer.protocol)
        headers = {name: value for name in READ_HEADERS if (value := answer.headers.get(name)) is not None}
        return Incoming(answer.status, content, headers, answer.close_connection)

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    def _must_probe(self) -> bool:
        """Returns whether the next request would open a new connection soon after a request was cancelled."""
        if time.monotonic() - self._given_up_at > PROBE_AFTER_FAILURE_S:
            return False
        return sum(protocol.is_connected() for protocol in self._protocols) <= self._in_use

    async def _probe_new_connections(
        self, session: aiohttp.ClientSession, probe: Probe, bounds: aiohttp.ClientTimeout
    ) -> bool:
        """Opens connections until one answers, which stays in the pool. Returns False if none answers in time."""

        async def answers() -> bool:
            with contextlib.suppress(Exception):
                async with session.get(probe.url, headers=probe.headers, timeout=bounds) as answer:
                    await answer.read()
                return answer.status < 500
            return False

        asked = [asyncio.create_task(answers()) for _ in range(PROBES_AT_ONCE)]
        try:
            async with asyncio.timeout(min(PROBE_TIMEOUT_S, probe.most_s)):
                for one in asyncio.as_completed(asked):
                    if await one:
                        return True
        except TimeoutError:
            pass
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return False

    def _open_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._most,
            keepalive_timeout=KEEP_ALIVE_S,
            resolver=_PinnedResolver(self._address),
            use_dns_cache=False,
            ssl=self._context or True,
        )
        return aiohttp.ClientSession(
            connector=connector,
            response_class=_TrackedResponse,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # Our services never compress, so a gzip answer is not one of theirs.
            headers={"accept-encoding": "identity"},
            skip_auto_headers=("accept", "user-agent"),
            timeout=aiohttp.ClientTimeout(total=None),
        )


async def _read_bounded(answer: aiohttp.ClientResponse) -> bytes:
    """Reads the whole body. Raises ClientPayloadError if it is larger than any answer of our services."""
    if answer.content_length is not None and answer.content_length <= MOST_ANSWER_BYTES:
        return await answer.read()
    chunks, size = [], 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > MOST_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError(f"The answer has more than {MOST_ANSWER_BYTES} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


class _PinnedResolver(AbstractResolver):
    """Resolves every name to one address."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [ResolveResult(hostname=host, host=self._address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Does nothing: there is nothing to release."""


class _TrackedResponse(aiohttp.ClientResponse):
    """An answer that keeps a reference to its connection, and closes it if it must not be reused."""

    _ends_at: WeakKeyDictionary[ResponseHandler, float] = WeakKeyDictionary()

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Reads the head of the answer."""
        protocol = connection.protocol
        assert protocol is not None
        self.protocol = protocol
        ends_at = self._ends_at.get(protocol)
        if ends_at is None:
            ends_at = self._ends_at[protocol] = time.monotonic() + random.uniform(*MAX_AGE_S)
        await super().start(connection)
        if self.status >= 500 or time.monotonic() >= ends_at:
            self.close_connection()
        return self

    def close_connection(self) -> None:
        """Closes the connection now, or once the answer has been read. The body stays readable."""
        if self.connection is None:
            self.protocol.close()  # the whole answer has arrived, so the connection is already back in the pool
        else:
            self.protocol.force_close()
