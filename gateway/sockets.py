"""HTTP/1.1 to one address of a backend, over aiohttp. Owns the connections: which is used again, which is closed.

httpx's own pool dies after random cancellations (encode/httpcore 1093); aiohttp's does not
(tests/faults/test_cancellation.py), at a fifth of the CPU.
"""

import asyncio
import contextlib
import ipaddress
import random
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary, WeakSet

import aiohttp
import httpx
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from gateway.settings import BackendAddress

# Below what every server of ours keeps an idle connection (75 s), or we would send on one that it just closed.
KEEP_ALIVE_S = 30.0
CONNECTIONS = 128
# Load is to reach replicas that came later. Each ends at another age, so that not all are opened anew at once; and not
# much earlier than this, because behind one address a new connection may land on a broken replica.
MAX_AGE_S = (90.0, 150.0)
# For so long after a request was given up, a new connection has to answer a liveness probe first, in this time: behind
# one address, half of the connections may lead to a replica that hangs. So many are tried, all at once, because a
# backend that is slow and nothing else answers none of them in time, and its answer must still fit behind them.
DOUBT_S = 30.0
PROOF_S = 0.25
PROOFS = 2
# 16 MB of documents (the most that an answer of ours holds) with every character escaped into six, and some around.
MOST_ANSWER_BYTES = 100_000_000

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


@dataclass(frozen=True, slots=True)
class Probe:
    """Where a liveness probe goes, and the most seconds that a request can spare for it (the extension `probe`)."""

    url: str
    most_s: float


class ConnectionLost(httpx.NetworkError):
    """The connection broke before an answer began."""


class Endpoints(Protocol):
    """Where the replicas of a backend are, and a transport to each."""

    async def addresses(self) -> Sequence[str]:
        """The addresses of now, each once. Raises OSError where there is no finding out."""
        ...

    def transport(self, address: str) -> httpx.AsyncBaseTransport:
        """A transport to one of these addresses."""
        ...


class SocketEndpoints:
    """The addresses that a backend's host name has, and sockets to them. One record of a name is one replica."""

    def __init__(self, backend: BackendAddress, resolve: Resolve | None = None) -> None:
        self.url = backend.url
        self._url = httpx.URL(backend.url)
        self._port = self._url.port or (443 if self._url.scheme == "https" else 80)
        self._resolve = resolve or resolved

    async def addresses(self) -> Sequence[str]:
        """The host itself where it is an IP address, else what its name resolves to."""
        if _is_ip(self._url.host):
            return (self._url.host,)
        name = self._url.raw_host.decode("ascii")
        return tuple(dict.fromkeys(await self._resolve(name, self._port)))

    def transport(self, address: str) -> httpx.AsyncBaseTransport:
        """Connections to this address alone, whatever the name resolves to later."""
        return SocketTransport(address, secure=self._url.scheme == "https")


class FixedEndpoints:
    """Given transports in place of addresses: whole services in this process, or faults at the wire."""

    def __init__(self, *transports: httpx.AsyncBaseTransport) -> None:
        self._transports = {f"transport-{number}": transport for number, transport in enumerate(transports)}

    async def addresses(self) -> Sequence[str]:
        """One for each transport."""
        return tuple(self._transports)

    def transport(self, address: str) -> httpx.AsyncBaseTransport:
        """The transport given."""
        return self._transports[address]


async def resolved(host: str, port: int) -> Sequence[str]:
    """All addresses of a host name. Raises OSError (socket.gaierror)."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class SocketTransport(httpx.AsyncBaseTransport):
    """Connections to one address. One that carried a failure, or is too old, is not used again.

    An address may stand for several replicas (a Service of Kubernetes): then a connection is what stays with one of
    them, and what is kept are the connections to those that answer. The answer's extension `close_connection` is for
    callers who find an answer of status 2xx to be none.
    """

    def __init__(self, address: str, *, secure: bool = False, most: int = CONNECTIONS) -> None:
        self._address = address
        self._most = most
        # Loading the certificates takes 20 ms, so only where they are needed.
        self._tls = httpx.create_ssl_context() if secure else True
        self._session: aiohttp.ClientSession | None = None
        self._in_use = 0
        self._carriers: WeakSet[ResponseHandler] = WeakSet()
        self._given_up_at = float("-inf")

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The whole answer. Raises httpx.HTTPError, whatever happens on the connection."""
        if self._session is None:
            self._session = self._opened()
        timeout: dict[str, float | None] = request.extensions.get("timeout", {})
        bounds = aiohttp.ClientTimeout(sock_connect=timeout.get("connect"))
        probe: Probe | None = request.extensions.get("probe")
        known = True
        if probe is not None and self._doubtful():
            known = await self._prove(self._session, probe, bounds)
        self._in_use += 1
        try:
            async with self._session.request(
                request.method,
                str(request.url),
                headers=request.headers,
                data=request.content or None,
                allow_redirects=False,
                timeout=bounds,
            ) as answer:
                content = await _bounded(answer)
        except asyncio.CancelledError:
            # After probes in vain the time may have been too short because of them: that must not prolong the doubt.
            if known:
                self._given_up_at = time.monotonic()
            raise
        except aiohttp.ClientConnectorError as error:
            raise httpx.ConnectError(str(error), request=request) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise httpx.ConnectTimeout(str(error), request=request) from error
        except (aiohttp.ClientConnectionError, ConnectionError) as error:
            raise ConnectionLost(str(error), request=request) from error
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error), request=request) from error
        except aiohttp.ClientPayloadError as error:
            raise httpx.ReadError(str(error), request=request) from error
        except Exception as error:  # what a broken answer can raise in a parser is not a closed list
            raise httpx.RemoteProtocolError(str(error), request=request) from error
        finally:
            self._in_use -= 1
        assert isinstance(answer, _Answer)
        self._carriers.add(answer.carrier)
        kept = [(name, value) for name, value in answer.raw_headers if name.lower() in _KEPT_HEADERS]
        extensions = {"close_connection": answer.close_connection}
        return httpx.Response(answer.status, headers=kept, content=content, request=request, extensions=extensions)

    async def aclose(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    def _doubtful(self) -> bool:
        """Whether the next request would open a connection of which nothing is known, after one has led nowhere."""
        if time.monotonic() - self._given_up_at > DOUBT_S:
            return False
        return sum(carrier.is_connected() for carrier in self._carriers) <= self._in_use

    async def _prove(self, session: aiohttp.ClientSession, probe: Probe, bounds: aiohttp.ClientTimeout) -> bool:
        """Leaves a connection in the pool on which somebody answers; False where none does in time."""

        async def answers() -> bool:
            with contextlib.suppress(Exception):
                async with session.get(probe.url, timeout=bounds) as answer:
                    await answer.read()
                return answer.status < 500
            return False

        asked = [asyncio.create_task(answers()) for _ in range(PROOFS)]
        try:
            async with asyncio.timeout(min(PROOF_S, probe.most_s)):
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

    def _opened(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=self._most,
            keepalive_timeout=KEEP_ALIVE_S,
            resolver=_Pinned(self._address),
            use_dns_cache=False,
            ssl=self._tls,
        )
        return aiohttp.ClientSession(
            connector=connector,
            response_class=_Answer,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            # Nothing is encoded for us: an answer in gzip is not one of ours.
            headers={"accept-encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None),
        )


_KEPT_HEADERS = (b"retry-after", b"content-type")


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The whole body. Raises ClientPayloadError for one that is too large for an answer of our services."""
    if answer.content_length is not None and answer.content_length <= MOST_ANSWER_BYTES:
        return await answer.read()
    chunks, size = [], 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > MOST_ANSWER_BYTES:
            raise aiohttp.ClientPayloadError(f"The answer has more than {MOST_ANSWER_BYTES} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


class _Pinned(AbstractResolver):
    """Resolves every name to one address."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        family = socket.AF_INET6 if ":" in self._address else socket.AF_INET
        return [ResolveResult(hostname=host, host=self._address, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        """Nothing is held."""


class _Answer(aiohttp.ClientResponse):
    """An answer that knows its connection, and closes it where it must not be used again."""

    _ends_at: WeakKeyDictionary[ResponseHandler, float] = WeakKeyDictionary()

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        """Reads the head."""
        protocol = connection.protocol
        assert protocol is not None
        self.carrier = protocol
        ends_at = self._ends_at.get(protocol)
        if ends_at is None:
            ends_at = self._ends_at[protocol] = time.monotonic() + random.uniform(*MAX_AGE_S)
        await super().start(connection)
        if self.status >= 500 or time.monotonic() >= ends_at:
            self.close_connection()
        return self

    def close_connection(self) -> None:
        """Ends the connection now, or once the answer has been read. Its body stays readable."""
        if self.connection is None:
            self.carrier.close()  # all of the answer was there, so the connection is back in the pool already
        else:
            self.carrier.force_close()
