"""A real process under hostile requests: how long /livez waited meanwhile, and what became of its memory."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import psutil

from tests.processes import Process

MIB = 1_048_576


class Watched:
    """What a process did while it was watched. Seconds and MiB."""

    def __init__(self, process: Process) -> None:
        assert process.running is not None
        self.port = process.port
        self.slowest_s = 0.0
        self._process = psutil.Process(process.running.pid)
        self._before = self._rss()
        self._most = self._before
        self._ended = threading.Event()

    @property
    def grown_mib(self) -> float:
        return (self._most - self._before) / MIB

    @property
    def kept_mib(self) -> float:
        return (self._rss() - self._before) / MIB

    def _rss(self) -> int:
        return int(self._process.memory_info().rss)

    def watch_memory(self) -> None:
        while not self._ended.wait(0.005):
            self._most = max(self._most, self._rss())

    def watch_livez(self) -> None:
        while not self._ended.wait(0.01):
            started = time.monotonic()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=60) as one:
                one.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while one.recv(4_096):
                    pass
            self.slowest_s = max(self.slowest_s, time.monotonic() - started)


@contextlib.contextmanager
def watched(process: Process) -> Iterator[Watched]:
    """Asks /livez and reads the memory a hundred times a second, until the block ends."""
    one = Watched(process)
    threads = [threading.Thread(target=target, daemon=True) for target in (one.watch_memory, one.watch_livez)]
    for thread in threads:
        thread.start()
    try:
        yield one
    finally:
        one._ended.set()
        for thread in threads:
            thread.join()
