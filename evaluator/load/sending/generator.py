"""A process that sends requests over HTTP: `python -m evaluator.load.sending.generator FOLDER` (drives.py).

Reads a GeneratorTask from the folder, reports that it is ready, reads the start time from standard input, and writes a
GeneratorResult into the folder after the last answer. Answers stay bytes: nothing is parsed while requests are under
way.
"""

import asyncio
import contextlib
import ctypes
import gc
import os
import pickle
import resource
import signal
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import uvloop

from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.load.sending.load_loop import GeneratorResult, GeneratorTask, Reply, closed_loop, open_loop
from services.chassis.calls.sockets import SocketTransport
from services.chassis.calls.transport import CACHED_RESULTS, RETRY_AFTER, ConnectTimedOut, Outgoing, TransportError

READY = b"ready\n"
# Files of a generator's folder.
TASK = "task.pickle"
RESULT = "result.pickle"
# Seconds for one connection before the load begins.
CONNECT_S = 1.0
CLOCK_MONOTONIC = 1  # the clock of time.monotonic
TFD_TIMER_ABSTIME = 1


async def generate(task: GeneratorTask, start_s: float, *, real_time: bool) -> GeneratorResult:
    """Sends everything; returns after the last answer. `start_s`: of the monotonic clock; `real_time` is passed on."""
    if task.loop == "open" and not task.planned_s:
        return GeneratorResult([], 0.0, 0.0, real_time, start_s)
    access = read_access() if task.opens_gateway else GatewayAccess()
    headers = task.headers | access.headers(task.url)
    # No limit here: the load loop bounds what is in flight, and a pool that made requests wait would hide their delay.
    # Nor new connections in place of good ones: opening them would be part of what is measured.
    address, context = await reached(task.url), access.context(task.url)
    calls = SocketTransport(address, most=sys.maxsize, context=context, replaces=False)

    async def send(number: int) -> Reply:
        body = task.bodies[task.picks[number % len(task.picks)]]
        named = {**headers, "x-request-id": task.request_id(number)}
        try:
            async with asyncio.timeout(task.timeout_s):
                answer = await calls.send(Outgoing("POST", task.url, named, body, connect_s=task.timeout_s))
        except (TimeoutError, ConnectTimedOut):
            return Reply(0, b"", "timeout")
        except TransportError as error:
            return Reply(0, str(error).encode(), "unreachable")
        retry_after, cached = answer.headers.get(RETRY_AFTER, ""), answer.headers.get(CACHED_RESULTS, "")
        return Reply(answer.status, answer.content, None, retry_after, cached)

    try:
        with PreciseClock(start_s) as clock:
            await clock.until(0.0)
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            if task.loop == "open":
                records = await open_loop(task.planned_s, send, clock, task.in_flight)
            else:
                records = await closed_loop(task.in_flight, task.seconds, send, clock)
            used_s, seconds = time.process_time() - began_cpu_s, time.monotonic() - began_s
            return GeneratorResult(records, used_s, seconds, real_time, start_s)
    finally:
        await calls.aclose()


async def reached(url: str) -> str:
    """Returns the address at which the host of a URL takes connections, the host itself where it takes none.

    So a name is looked up once, and not within a request's time.
    """
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    assert host is not None  # the URL was checked when the task was made
    with contextlib.suppress(OSError):
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
            address: str = writer.get_extra_info("peername")[0]
            writer.close()
            return address
    return host


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class PreciseClock:
    """Counts seconds since a moment of the monotonic clock, which all processes of a machine share.

    Wakes a task with microseconds of delay: event loops round their timers to milliseconds. Uses a timer of the kernel
    (timerfd_create(2), Linux). One task at a time may wait.
    """

    def __init__(self, start_s: float) -> None:
        self._start_s = start_s
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._timer: int = self._libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._timer < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._timer, self._fired)
        self._waiter: asyncio.Future[None] | None = None

    def now(self) -> float:
        """Returns the present time."""
        return time.monotonic() - self._start_s

    async def until(self, at_s: float) -> None:
        """Returns at that time or right after it. Lets other tasks run in any case."""
        if at_s <= self.now():
            await asyncio.sleep(0)
            return
        nanoseconds = int((self._start_s + at_s) * 1e9)
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(*divmod(nanoseconds, 1_000_000_000)))
        self._waiter = self._loop.create_future()
        if self._libc.timerfd_settime(self._timer, TFD_TIMER_ABSTIME, ctypes.byref(spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")
        await self._waiter

    def _fired(self) -> None:
        try:
            os.read(self._timer, 8)
        except BlockingIOError:  # the loop saw it twice
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._timer)
        os.close(self._timer)


def main(folder: Path) -> None:
    """Runs one task. Ends without a result when its parent ends before the start."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches this process too, and its parent ends it
    task: GeneratorTask = pickle.loads((folder / TASK).read_bytes())
    # A connection is a file; the soft limit is often 1,024.
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # A full collection stops all requests under way.
    gc.collect()
    gc.freeze()
    gc.disable()
    # A process that has used little CPU still waits for the end of another's time slice: milliseconds after a timer.
    real_time = take_real_time_priority()
    sys.stdout.buffer.write(READY)
    sys.stdout.buffer.flush()
    line = sys.stdin.buffer.readline()
    if not line:
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        result = runner.run(generate(task, float(line), real_time=real_time))
    (folder / RESULT).write_bytes(pickle.dumps(result))


def take_real_time_priority() -> bool:
    """Gives this process the lowest real-time priority (sched(7), Linux). Returns False where that is not permitted.

    It then runs as soon as it is due, before the processes that it measures. CAP_SYS_NICE permits it.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(os.sched_get_priority_min(os.SCHED_RR)))
    except PermissionError:
        return False
    return True


if __name__ == "__main__":
    main(Path(sys.argv[1]))
