"""Owns one connection to a server: writes a request, and reads its answer with httptools (llhttp), as our server does.

aiohttp's client takes several times the CPU. This one speaks what our services speak: a request at a time, whole
bodies, no redirects, no cookies, no compression.
"""

import asyncio
import time
from urllib.parse import urlsplit

import httptools

from services.chassis.calls.transport import (
    READ_HEADERS,
    AnswerBroken,
    ConnectionLost,
    Incoming,
    Outgoing,
    TransportError,
)

# 16 MB of documents (the most in one answer) with every character escaped into six, and some more around them.
MOST_ANSWER_BYTES = 100_000_000
# As many bytes of its head.
MOST_HEAD_BYTES = 65_536

_READ = frozenset(name.encode() for name in READ_HEADERS)


class PeerConnection(asyncio.Protocol):
    """One connection, used until `ends_at` (time.monotonic). Not open any more after a fault."""

    def __init__(self, ends_at: float) -> None:
        self.ends_at = ends_at
        self.idle_since = time.monotonic()
        self.is_open = False
        self._transport: asyncio.Transport | None = None
        self._answered: asyncio.Future[None] | None = None  # None: nothing is asked
        self._begin()
        # Each request makes its own: nothing ends the circle of a connection that was never made.
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
            self.close()  # nobody asked for it
            return
        assert self._parser is not None  # of this answer
        self._head_bytes += 0 if self._in_body else len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            self._end(cause if isinstance(cause, AnswerBroken) else AnswerBroken("It is no HTTP."))
            return
        if not self._in_body and self._head_bytes > MOST_HEAD_BYTES:
            self._end(AnswerBroken(f"The head of the answer has more than {MOST_HEAD_BYTES} bytes."))

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self.is_open = self.is_open, False
        self._parser = None  # it holds us: such a circle stays until a full garbage collection
        if self._in_body and not self._has_length and exc is None and was_open:
            self._end(None)  # an answer that ends with its connection (RFC 9112, 6.3)
        elif self._in_body or self._head_bytes:
            self._end(AnswerBroken("The answer broke off."))
        else:
            self._end(ConnectionLost("The backend closed the connection."))

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._answered is None or self._answered.done():
            raise AnswerBroken("More came than one answer.")

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
