"""Clients over plain sockets that can stop at any byte."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


class Caller:
    """One connection to a server."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=10)

    def send(self, *pieces: bytes) -> "Caller":
        try:
            for piece in pieces:
                self.socket.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            pass  # refused while sending: the answer says why
        return self

    def received(self) -> bytes:
        """Reads until the server closes."""
        pieces = []
        try:
            while piece := self.socket.recv(65_536):
                pieces.append(piece)
        except ConnectionResetError:
            pass
        return b"".join(pieces)

    def answer(self) -> tuple[int, bytes]:
        """Reads status and body of one answer; the connection stays open."""
        with self.socket.makefile("rb") as lines:
            status = int(lines.readline().split()[1])
            size = 0
            while line := lines.readline().strip():
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
            return status, lines.read(size)


@contextmanager
def callers(port: int, number: int) -> Iterator[list[Caller]]:
    with ExitStack() as stack:
        made = [Caller(port) for _ in range(number)]
        for one in made:
            stack.enter_context(one.socket)
        yield made


def wait_for(condition: Callable[[], bool], within_s: float) -> None:
    """Waits until the condition holds."""
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)
