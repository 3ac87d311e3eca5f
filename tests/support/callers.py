"""Clients over plain sockets that can stop at any byte."""

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


class Caller:
    """One connection to a server."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")

    def send(self, *pieces: bytes) -> "Caller":
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError, ssl.SSLError):
            pass  # refused while sending: the answer says why
        return self

    def received(self) -> bytes:
        """Reads until the server closes."""
        pieces = []
        try:
            while piece := self.socket.recv(65_536):
                pieces.append(piece)
        except (ConnectionResetError, ssl.SSLEOFError):
            pass
        return b"".join(pieces)

    def answer(self) -> tuple[int, bytes]:
        """Reads status and body of one answer; the connection stays open."""
        status, _, body = self.whole_answer()
        return status, body

    def whole_answer(self) -> tuple[int, dict[str, str], bytes]:
        """Reads status, headers by their names in small letters, and body of one answer."""
        # Without a buffer: it would take the beginning of the next answer with it.
        with self.socket.makefile("rb", buffering=0) as lines:
            status = int(lines.readline().split()[1])
            headers = {}
            while line := lines.readline().strip():
                name, _, value = line.decode("latin-1").partition(":")
                headers[name.lower()] = value.strip()
            length, body = int(headers.get("content-length", 0)), b""
            while len(body) < length and (piece := lines.read(length - len(body))):
                body += piece
            return status, headers, body


@contextmanager
def callers(port: int, number: int, context: ssl.SSLContext | None = None) -> Iterator[list[Caller]]:
    """Yields connections, over TLS with a context."""
    with ExitStack() as stack:
        made = [Caller(port, context) for _ in range(number)]
        for one in made:
            stack.enter_context(one.socket)
        yield made


def wait_for(condition: Callable[[], bool], within_s: float) -> None:
    """Waits until the condition holds."""
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)
