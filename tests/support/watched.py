"""Watches a real process under hostile requests: latency of /livez, and memory."""

import contextlib
import threading
import time
from collections.abc import Iterator

from tests.support import secured
from tests.support.processes import Process
from tests.support.vitals import cpu_wait_s, peak_mib, reset_peak, rss_mib


class Watched:
    """Figures of a watched process: slowest /livez in seconds, without waits for a core, and memory in MiB."""

    def __init__(self, process: Process) -> None:
        self.slowest_s = 0.0
        self._port, self._pid = process.port, process.pid
        self._before = rss_mib(self._pid)
        self._ended = threading.Event()
        reset_peak(self._pid)

    @property
    def grown_mib(self) -> float:
        return peak_mib(self._pid) - self._before

    @property
    def kept_mib(self) -> float:
        return rss_mib(self._pid) - self._before

    def _watch(self) -> None:
        trusts = secured.client_context(self._port)
        while not self._ended.wait(0.01):
            started, waited = time.monotonic(), cpu_wait_s(self._pid)
            with contextlib.suppress(OSError), secured.connected(self._port, 60, trusts) as one:
                one.sendall(b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                while one.recv(4_096):
                    pass
            took = time.monotonic() - started
            self.slowest_s = max(self.slowest_s, took - (cpu_wait_s(self._pid) - waited))

    @contextlib.contextmanager
    def _watching(self) -> Iterator["Watched"]:
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            thread.join()


def watched(process: Process) -> contextlib.AbstractContextManager[Watched]:
    """Polls /livez a hundred times a second until the block ends; the kernel records peak memory."""
    return Watched(process)._watching()
