"""Speaks TLS 1.2 or newer on a process's port. Its certificate is read again when its files change.

Stands between a socket and the protocol of a connection, so that the bounds of connections hold under TLS too. With
the TLS of asyncio and uvloop they do not: a connection is unknown until its handshake is done, unsent bytes are counted
before encryption only, and a closed one stays until the other side closes TLS. What callers trust: trust.py.
"""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from services.chassis.errors import ProblemError
from services.chassis.instruments import Instruments
from services.chassis.server.connections import Connections
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import ServiceSettings
from services.files.regular_file import FileSignature, expect_regular, file_signature

logger = logging.getLogger(__name__)

# One call of TLS encrypts so much. An answer is encrypted in pieces, so that at most a piece is in memory twice.
PIECE_BYTES = 262_144

Make = Callable[..., asyncio.Protocol]


class Certificate:
    """The certificate and key of a listener. `refresh` replaces them in a running listener when their files change."""

    def __init__(self, cert_file: Path, key_file: Path, names: tuple[str, str], instruments: Instruments) -> None:
        """`names` are the variables of the two files. Raises ConfigurationError for a pair that cannot be used."""
        self._files = (cert_file, key_file)
        self._names = names
        self._loads = instruments.certificate_loads
        self._signatures = self._signed()
        self._current = self._loaded()
        # New connections are handed to the current context, so that a pair is replaced as a whole or not at all.
        self.context = self._current
        self.context.sni_callback = self._choose

    def refresh(self) -> None:
        """Reads the pair again if a file has changed. A pair that cannot be used is logged once; the old one stays."""
        signatures = self._signed()
        if signatures == self._signatures:
            return
        # Noted before reading: a file replaced meanwhile differs at the next look.
        self._signatures = signatures
        try:
            self._current = self._loaded()
        except ConfigurationError as error:
            self._loads.labels("refused").inc()
            logger.error("the certificate has changed and cannot be used, so the one before stays: %s", error)
        else:
            self._loads.labels("loaded").inc()
            logger.info("the certificate has changed: new connections get the new one")

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        if connection.context is not self._current:
            connection.context = self._current

    def _loaded(self) -> ssl.SSLContext:
        cert_file, key_file = self._files
        for file, name in zip(self._files, self._names, strict=True):
            try:
                expect_regular(file)  # OpenSSL would block on a pipe
            except OSError as error:
                raise ConfigurationError(f"{name}: {file}: {error.strerror}.") from error
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A caller may not make us compute a handshake again and again on one connection (TLS 1.2).
        context.options |= ssl.OP_NO_RENEGOTIATION
        try:
            # The empty password is wrong for an encrypted key, which would else ask the terminal.
            context.load_cert_chain(cert_file, key_file, password="")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or str(error) or type(error).__name__
            raise ConfigurationError(
                f"{' and '.join(self._names)}: {cert_file} and {key_file} are not a certificate and its private key in "
                f"PEM ({reason.lower().replace('_', ' ')}): name the files of one certificate, with an unencrypted key."
            ) from error
        return context

    def _signed(self) -> tuple[FileSignature | None, ...]:
        return tuple(file_signature(file) for file in self._files)


def certificate_of(settings: ServiceSettings, instruments: Instruments) -> Certificate | None:
    """Returns the certificate of a process's port; None for plain HTTP. Raises ConfigurationError."""
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    prefix = settings.model_config.get("env_prefix", "")
    names = (f"{prefix}TLS_CERT_FILE", f"{prefix}TLS_KEY_FILE")
    return Certificate(settings.tls_cert_file, settings.tls_key_file, names, instruments)


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
        self._ended = False  # by us: nothing more is written or handed on
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
        # A reference cycle through the transport would keep bodies in memory until a full garbage collection.
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
        """Closes TLS: the other side learns that nothing more comes."""
        if self._http is None or self._ended or self.raw.is_closing():
            return
        self._ended = True
        with contextlib.suppress(ssl.SSLError):  # it asks for the other side's close_notify, which we do not await
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
            if not data:  # the other side has closed TLS
                self._http.eof_received()
                self.close()
                return
            self._http.data_received(data)

    def _flush(self) -> None:
        if self._outgoing.pending and not self.raw.is_closing():
            self.raw.write(self._outgoing.read())

    def _leave(self) -> None:
        """Stops counting this connection: from here on its protocol is counted."""
        self._owner.connections.discard(self)
        self._owner.forget(self)


class TlsTransport(asyncio.Transport):
    """The transport of the protocol behind TLS. Its buffer is the socket's: encrypted bytes that are not sent yet."""

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
    """Makes the protocol of each connection for uvicorn."""

    def __init__(self, protocol: Make, context: ssl.SSLContext) -> None:
        self._protocol = protocol
        self._context = context

    def __call__(self, *, server_state: Connections, **given: Any) -> TlsConnection:
        return TlsConnection(server_state, self._context, lambda: self._protocol(server_state=server_state, **given))
