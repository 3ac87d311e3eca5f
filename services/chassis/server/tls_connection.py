"""Puts TLS between a socket and the protocol of a connection, so that the bounds of connections hold under TLS too.

With the TLS of asyncio and uvloop they do not: a connection is unknown until its handshake is done, which may take a
minute; what waits to be sent is counted before TLS alone; and a closed one stays until the other side takes leave.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from typing import Any

from services.chassis.errors import ProblemError
from services.chassis.server.connections import Connections

# One call of TLS encrypts so much. An answer is encrypted in pieces, so that at most a piece is in memory twice.
PIECE_BYTES = 262_144

Make = Callable[..., asyncio.Protocol]


class TlsConnection(asyncio.Protocol):
    """One connection: shakes hands, then hands what it decrypts to a protocol that writes by `TlsTransport`."""

    def __init__(self, owner: Connections, context: ssl.SSLContext, make: Callable[[], asyncio.Protocol]) -> None:
        """`make` makes the protocol when the handshake is done."""
        self._owner = owner
        self._make = make
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.raw: asyncio.Transport
        self._http: asyncio.Protocol | None = None
        self._paused = False
        self._ended = False  # we have taken leave: nothing more is written or handed on
        self._writing = False
        self._full = False

    # Called by Connections and by the server, while the handshake lasts.

    @property
    def closing(self) -> bool:
        """Whether it closes once everything is written."""
        return self.raw.is_closing()

    def close(self) -> None:
        """Closes it once everything is written, and notifies the other side, without waiting for its answer."""
        self.end()
        self.raw.close()

    def abort(self) -> None:
        """Closes it now."""
        self.raw.abort()

    shutdown = abort

    def refuse(self, _: ProblemError) -> None:
        """Ends it: nothing can be answered before the handshake is done."""
        self._owner.count_ended("tls-handshake")
        self.raw.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        self.raw = transport
        self._owner.connections.add(self)  # type: ignore[arg-type]  # uvicorn lists its own protocols
        self._owner.admit(self, asyncio.get_running_loop().time())

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        # The protocol knows us by its transport: a circle would keep bodies in memory until a full garbage collection.
        http, self._http = self._http, None
        if http is None:
            self._leave()
        else:
            http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        self._incoming.write(data)
        self.deliver()

    def eof_received(self) -> bool | None:
        return None if self._http is None else self._http.eof_received()

    def pause_writing(self) -> None:
        if self._writing:
            self._full = True  # passed on after the last piece, when the amount that waits is read
        elif self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        if self._http is not None:
            self._http.resume_writing()

    # Called by the transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Encrypts and sends; drops what is written after the end, as a plain connection does."""
        view = memoryview(data)
        self._writing = True
        for start in range(0, len(view), PIECE_BYTES):
            if self._ended or self.raw.is_closing():
                break
            try:
                self.tls.write(view[start : start + PIECE_BYTES])
            except ssl.SSLError:
                self.raw.abort()
                break
            self._flush()
        self._writing = False
        if self._full:
            self._full = False
            self.pause_writing()

    def end(self) -> None:
        """Tells the other side that nothing more comes."""
        if self._http is None or self._ended or self.raw.is_closing():
            return
        self._ended = True
        with contextlib.suppress(ssl.SSLError):  # it wants the other side's leave, which is not waited for
            self.tls.unwrap()
        self._flush()

    def pause(self) -> None:
        """Stops reading and handing on what was read."""
        self._paused = True
        if not self.raw.is_closing():
            self.raw.pause_reading()

    def resume(self) -> None:
        """Reads on, and first hands on what was read already."""
        self._paused = False
        if not self.raw.is_closing():
            self.raw.resume_reading()
            asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self) -> None:
        """Goes on with the handshake, or hands on what can be decrypted."""
        if self._ended:
            return
        try:
            if self._http is None and not self._shakes_hands():
                return
            self._hand_on()
        except ssl.SSLError:  # no TLS, no common version, an authority that the other side does not know, a bad record
            self._flush()  # sends the alert that reports it
            if self._http is None:
                self._owner.count_ended("tls-handshake")
            self._ended = True
            self.raw.close()
        else:
            self._flush()

    def _shakes_hands(self) -> bool:
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            return False
        self._leave()
        self._http = self._make()
        self._http.connection_made(TlsTransport(self))
        return True

    def _hand_on(self) -> None:
        assert self._http is not None
        while not self._paused and not self._ended and not self.raw.is_closing():
            try:
                data = self.tls.read(PIECE_BYTES)
            except ssl.SSLWantReadError:
                return
            if not data:  # the other side has taken leave
                self._http.eof_received()
                self.close()
                return
            self._http.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending and not self.raw.is_closing():
            self.raw.write(self._outgoing.read())

    def _leave(self) -> None:
        """Stops counting: the protocol counts from here on, or nobody does."""
        self._owner.connections.discard(self)
        self._owner.forget(self)


class TlsTransport(asyncio.Transport):
    """What the protocol behind TLS writes to. Its buffer is the socket's: what is encrypted and not yet sent."""

    def __init__(self, connection: TlsConnection) -> None:
        super().__init__()
        self._connection = connection
        self._raw = connection.raw

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._connection.tls.context
        if name == "ssl_object":
            return self._connection.tls
        return self._raw.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._connection.write(data)

    def get_write_buffer_size(self) -> int:
        return self._raw.get_write_buffer_size()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._connection.end()
        self._raw.write_eof()

    def pause_reading(self) -> None:
        self._connection.pause()

    def resume_reading(self) -> None:
        self._connection.resume()

    def is_closing(self) -> bool:
        return self._raw.is_closing()

    def close(self) -> None:
        self._connection.close()

    def abort(self) -> None:
        self._connection.abort()


class TlsFactory:
    """What uvicorn calls for each connection in place of a protocol."""

    def __init__(self, protocol: Make, context: ssl.SSLContext) -> None:
        self._protocol = protocol
        self._context = context

    def __call__(self, *, server_state: Connections, **given: Any) -> TlsConnection:
        return TlsConnection(server_state, self._context, lambda: self._protocol(server_state=server_state, **given))
