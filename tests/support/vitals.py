"""Measures a process from outside: memory, CPU time, and the latency of /livez."""

import multiprocessing
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

from tests.support import secured

POLL_S = 0.02
GIVEN_UP_S = 60.0
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")


def _status_mib(pid: int, key: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise ProcessLookupError(f"process {pid} has ended")


def rss_mib(pid: int) -> float:
    """Reads resident memory of a process, in MiB."""
    return _status_mib(pid, "VmRSS")


def peak_mib(pid: int) -> float:
    """Reads peak resident memory since `reset_peak`, in MiB, as the kernel records it."""
    return _status_mib(pid, "VmHWM")


def reset_peak(pid: int) -> None:
    """Resets the kernel's record of the peak."""
    Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="utf-8")


def cpu_s(pid: int) -> float:
    """Reads CPU seconds (user and system) of a process with its threads, without its children."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_A_SECOND


def cpu_wait_s(pid: int) -> float:
    """Reads the seconds that a process's main thread was runnable without a core: delay by foreign load."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9


@dataclass(frozen=True, slots=True)
class LivezWindow:
    """Polls of one window, in seconds. `worst_own_s` excludes the main thread's wait for a core."""

    polls: int
    failed: int
    worst_s: float
    worst_own_s: float


class LivezWatch:
    """Polls /livez every 20 ms on new connections from its own process, so that the test cannot delay it."""

    def __init__(self, port: int, pid: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(
            target=_watch, args=(port, pid, secured.authority_of(port), theirs), daemon=True
        )
        self._process.start()
        assert self._ours.recv() == "watching"

    def begin(self) -> None:
        """Opens a window."""
        self._ours.send("begin")
        assert self._ours.recv() == "begun"

    def end(self) -> LivezWindow:
        """Closes the window, with the poll in flight; returns its figures."""
        self._ours.send("end")
        seen = self._ours.recv()
        assert isinstance(seen, LivezWindow)
        return seen

    def close(self) -> None:
        self._process.kill()
        self._process.join()


@contextmanager
def watching(port: int, pid: int) -> Iterator[LivezWatch]:
    watch = LivezWatch(port, pid)
    try:
        yield watch
    finally:
        watch.close()


def _watch(port: int, pid: int, authority: Path | None, commands: Connection) -> None:
    trusts = None if authority is None else ssl.create_default_context(cafile=authority)
    commands.send("watching")
    polls, failed, worst_s, own_s = 0, 0, 0.0, 0.0
    opened = False
    while True:
        if commands.poll(POLL_S if opened else None):
            if commands.recv() == "begin":
                polls, failed, worst_s, own_s, opened = 0, 0, 0.0, 0.0, True
                commands.send("begun")
            else:
                opened = False
                commands.send(LivezWindow(polls, failed, worst_s, own_s))
                continue
        if opened:
            started, waited = time.monotonic(), _cpu_wait_or_zero_s(pid)
            answered = _alive(port, trusts)
            took = time.monotonic() - started
            polls += 1
            failed += not answered
            worst_s = max(worst_s, took)
            own_s = max(own_s, took - (_cpu_wait_or_zero_s(pid) - waited))


def _cpu_wait_or_zero_s(pid: int) -> float:
    try:
        return cpu_wait_s(pid)
    except (OSError, IndexError):
        return 0.0


def _alive(port: int, trusts: ssl.SSLContext | None) -> bool:
    try:
        with secured.connected(port, GIVEN_UP_S, trusts) as one:
            one.sendall(b"GET /livez HTTP/1.1\r\nhost: soak\r\nconnection: close\r\n\r\n")
            return one.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False
