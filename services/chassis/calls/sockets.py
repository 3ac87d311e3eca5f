"""Sends HTTP/1.1 requests to one address: the adapter of transport.py in production.

Reads answers with httptools (llhttp), as our server does; aiohttp's client takes several times the CPU. This one speaks
what our services speak: a request at a time, whole bodies, no redirects, no cookies, no compression.
"""

import asyncio
import contextlib
import math
import random
import ssl
import time
from collections import deque
from urllib.parse import urlsplit

import httptools

from services.chassis.calls.transport import (
    READ_HEADERS,
    AnswerBroken,
    ConnectionLost,
    ConnectTimedOut,
    Incoming,
    NotConnected,
    NotTrusted,
    Outgoing,
    Probe,
    TransportError,
)
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
# The most bytes of an answer's head.
MOST_HEAD_BYTES = 65_536

_READ = frozenset(name.encode() for name in READ_HEADERS)


class PeerConnection(asyncio.Protocol):
    """One connection, used until `ends_at` (time.monotonic). Not open any more after a fault."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.idle_since = time.monotonic()
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None  # None: no request is in flight
        self._begin()
        # Each request makes its own: a connection that fails to open would keep the reference cycle.
        self._parser: httptools.HttpResponseParser | None = None

    async def exchange(self, request: Outgoing) -> Incoming:
        """Sends a request and returns its answer. Raises ConnectionLost or AnswerBroken.

        The connection is open afterwards where another request may follow; it is for its owner to close it.
        """
        if self._transport is None or not self.is_open:
            raise ConnectionLost("The backend had closed the connection.")
        self._begin()
        self._answered = asyncio.get_running_loop().create_future()
        try:
            self._transport.write(_written(request))
            await self._answered
        finally:
            self._answered = None
        # An answer that came before all was sent: the rest would be read as the next request.
        if not self._stays or self._transport.get_write_buffer_size():
            self.close()
        content = b"".join(self._parts)
        self._parts.clear()
        return Incoming(self._status, content, self._headers, self.close)

    def close(self) -> None:
        """Closes the connection now: nothing is read or sent any more."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def _begin(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._status = 0
        self._headers: dict[str, str] = {}
        self._parts: list[bytes] = []
        self._size = self._head_bytes = 0
        self._in_body = self._has_length = self._stays = False

    def _end(self, error: TransportError | None) -> None:
        if error is not None:
            self.close()
        if self._answered is None or self._answered.done():
            return
        if error is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(error)

    # Called by the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # uvloop's is no subclass
        self._transport, self.is_open = transport, True

    def data_received(self, data: bytes) -> None:
        if self._answered is None or self._answered.done():
            self.close()  # no request waits for it
            return
        assert self._parser is not None  # of this answer
        self._head_bytes += 0 if self._in_body else len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            self._end(cause if isinstance(cause, AnswerBroken) else AnswerBroken("It is not HTTP."))
            return
        if not self._in_body and self._head_bytes > MOST_HEAD_BYTES:
            self._end(AnswerBroken(f"The head of the answer has more than {MOST_HEAD_BYTES} bytes."))

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self.is_open = self.is_open, False
        self._parser = None  # a reference cycle stays until a full garbage collection
        if self._in_body and not self._has_length and exc is None and was_open:
            self._end(None)  # an answer that ends with its connection (RFC 9112, 6.3)
        elif self._in_body or self._head_bytes:
            self._end(AnswerBroken("The answer broke off."))
        else:
            self._end(ConnectionLost("The backend closed the connection."))

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._answered is None or self._answered.done():
            raise AnswerBroken("The backend sent more than one answer.")

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in _READ:
            self._headers[name.decode()] = value.decode("latin-1")
        elif name == b"content-length":
            self._has_length = True
            if int(value) > MOST_ANSWER_BYTES:
                raise _too_large()
        elif name == b"transfer-encoding":
            self._has_length = True

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        self._in_body = True
        self._status = self._parser.get_status_code()
        self._stays = self._parser.should_keep_alive()  # the parser forgets it with the end of the answer

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > MOST_ANSWER_BYTES:
            raise _too_large()
        self._parts.append(body)

    def on_message_complete(self) -> None:
        if self._status < 200:  # the answer follows
            self._in_body = False
            self._headers.clear()
            return
        self._end(None)


class SocketTransport:
    """Owns the connections to one address. Does not reuse one after a failure or beyond its age.

    An address may stand for several replicas (a Service of Kubernetes). A connection stays with one of them, so closing
    those that failed keeps the ones to healthy replicas.
    """

    def __init__(
        self, address: str, *, most: int = CONNECTIONS, context: ssl.SSLContext | None = None, replaces: bool = True
    ) -> None:
        """`context`: of TLS. The certificate is checked for the host of the URL, whatever the address.

        Without `replaces`, neither its age nor an answer of 500 and above ends a connection.
        """
        self._context = context
        self._replaces = replaces
        self._address = address
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._idle: deque[PeerConnection] = deque()  # in turn: an address may stand for several replicas
        self._busy: set[PeerConnection] = set()
        self._given_up_at = float("-inf")

    async def send(self, request: Outgoing) -> Incoming:
        """Sends a request and returns the whole answer. Raises TransportError for any fault of the connection."""
        async with self._places:
            known = True
            connection = self._reusable()
            try:
                if connection is None:
                    if request.probe is not None and time.monotonic() - self._given_up_at <= PROBE_AFTER_FAILURE_S:
                        known = await self._probe_new_connections(request, request.probe)
                        connection = self._reusable()
                    connection = connection or await self._connect(request)
                return await self._exchange(connection, request)
            except asyncio.CancelledError:
                # After failed probes the time may have been too short because of them: that must not prolong probing.
                if known:
                    self._given_up_at = time.monotonic()
                raise

    async def aclose(self) -> None:
        """Closes all connections."""
        self._most = 0  # those that are opening now close after their answer
        for connection in (*self._idle, *self._busy):
            connection.close()

    def _reusable(self) -> PeerConnection | None:
        now = time.monotonic()
        while self._idle:
            connection = self._idle.popleft()
            if connection.is_open and now < min(connection.ends_at, connection.idle_since + KEEP_ALIVE_S):
                return connection
            connection.close()
        return None

    async def _connect(self, request: Outgoing) -> PeerConnection:
        url = urlsplit(request.url)
        encrypted = url.scheme == "https"
        try:
            async with asyncio.timeout(request.connect_s):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: PeerConnection(self._ends_at()),
                    self._address,
                    url.port or (443 if encrypted else 80),
                    ssl=(self._context or ssl.create_default_context()) if encrypted else None,
                    server_hostname=url.hostname if encrypted else None,
                )
        except TimeoutError as error:
            raise ConnectTimedOut(str(error)) from error
        except OSError as error:  # of TLS too
            if (fault := certificate_fault(error)) is not None:
                raise NotTrusted(fault) from error
            raise NotConnected(str(error)) from error
        return connection

    def _ends_at(self) -> float:
        return time.monotonic() + random.uniform(*MAX_AGE_S) if self._replaces else math.inf

    async def _exchange(self, connection: PeerConnection, request: Outgoing) -> Incoming:
        self._busy.add(connection)
        try:
            answer = await connection.exchange(request)
        except BaseException:
            connection.close()
            raise
        finally:
            self._busy.discard(connection)
        failed = answer.status >= 500 and self._replaces
        if failed or not connection.is_open or len(self._idle) + len(self._busy) >= self._most:
            connection.close()  # those of probes may be too many
        else:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        return answer

    async def _probe_new_connections(self, request: Outgoing, probe: Probe) -> bool:
        """Opens connections until one answers, which stays open. Returns False if none answers in time."""
        probe_request = Outgoing("GET", probe.url, probe.headers, None, request.connect_s)

        async def answers() -> bool:
            with contextlib.suppress(Exception):
                return (await self._exchange(await self._connect(probe_request), probe_request)).status < 500
            return False

        probes = [asyncio.create_task(answers()) for _ in range(PROBES_AT_ONCE)]
        try:
            async with asyncio.timeout(min(PROBE_TIMEOUT_S, probe.most_s)):
                for answered in asyncio.as_completed(probes):
                    if await answered:
                        return True
        except TimeoutError:
            pass
        finally:
            for task in probes:
                task.cancel()
            await asyncio.gather(*probes, return_exceptions=True)
        return False


def _too_large() -> AnswerBroken:
    return AnswerBroken(f"The answer has more than {MOST_ANSWER_BYTES} bytes.")


def _written(request: Outgoing) -> bytes:
    """Returns a request as it is sent. Raises ValueError for a header that would end its line."""
    url = urlsplit(request.url)
    target = f"{url.path or '/'}?{url.query}" if url.query else url.path or "/"
    content = request.content or b""
    length = {} if request.content is None and request.method == "GET" else {"content-length": str(len(content))}
    named = {"host": url.netloc, "accept-encoding": "identity", **request.headers, **length}
    lines = [f"{request.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    head = "\r\n".join(lines)
    if head.count("\n") != len(lines) - 1 or head.count("\r") != len(lines) - 1:
        raise ValueError("a header of the request holds a line end")
    return f"{head}\r\n\r\n".encode("latin-1") + content
