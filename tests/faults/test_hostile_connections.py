"""Hostile connections at a real process with its default bounds do not affect other connections."""

import asyncio
import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.processes import Process
from tests.support.watched import watched

# Half of the bar for the event loop: the machine may be shared.
SOON_S = 0.25


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    process = Process("services.reranker", {"RERANKER_SCORER": "overlap", "RERANKER_MAX_CONNECTIONS": "200"})
    try:
        process.start(Path(tmp_path_factory.mktemp("process")) / "log")
        asyncio.run(process.ready())
        yield process
    finally:
        process.kill()


def connected(process: Process) -> socket.socket:
    return socket.create_connection(("127.0.0.1", process.port), timeout=30)


def held(process: Process) -> int:
    """Returns the number of connections that the process has open."""
    assert process.running is not None
    connections = psutil.Process(process.running.pid).net_connections("tcp")
    return sum(connection.status == psutil.CONN_ESTABLISHED for connection in connections)


def sent(process: Process, first: bytes, piece: bytes, times: int) -> bytes:
    """Sends one request in pieces and returns the beginning of the answer, even if not all pieces were taken."""
    with connected(process) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(first)
            for _ in range(times):
                connection.sendall(piece)
        with contextlib.suppress(ConnectionError):
            return connection.recv(65_536)
    return b""


@pytest.mark.parametrize(
    ("first", "size", "status"),
    [(b"GET /livez HTTP/1.1\r\nA: ", 200_000_000, b"431"), (b"GET /livez?", 60_000_000, b"414")],
    ids=["header", "URL"],
)
def test_a_gigantic_head_is_refused_and_delays_no_other(
    process: Process, first: bytes, size: int, status: bytes
) -> None:
    piece = b"a" * 1_000_000
    with watched(process) as seen:
        answer = sent(process, first, piece, size // len(piece))
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert seen.slowest_s < SOON_S
    assert seen.grown_mib < 20


def test_half_open_connections_do_not_block_others(process: Process) -> None:
    with contextlib.ExitStack() as stack, watched(process) as seen:
        for _ in range(1_000):
            connection = stack.enter_context(connected(process))
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 20_000)
        time.sleep(0.5)
        assert held(process) <= 201
    assert seen.slowest_s < SOON_S
    assert seen.grown_mib < 50
