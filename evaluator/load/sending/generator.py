"""A process that sends requests over HTTP: `python -m evaluator.load.sending.generator FOLDER` (generators.py).

Reads a GeneratorTask from the folder, reports that it is ready, reads the start time from standard input, prints a
line a second (live.py), and writes a GeneratorResult into the folder after the last answer.
Answers stay bytes: nothing is parsed while requests are under way.
"""

import asyncio
import contextlib
import gc
import os
import pickle
import resource
import sys
import time
from bisect import bisect_right
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import uvloop

from evaluator.client.gateway_access import GatewayAccess, read_access
from evaluator.load.sending.generator_task import READY, RESULT, TASK, GeneratorResult, GeneratorTask
from evaluator.load.sending.live import write_counts
from evaluator.load.sending.load_loop import Reply, SendRecord, closed_loop, open_loop
from evaluator.load.sending.precise_clock import PreciseClock
from services.chassis.calls.sockets import SocketTransport
from services.chassis.calls.transport import CACHED_RESULTS, RETRY_AFTER, ConnectTimedOut, Outgoing, TransportError

# Seconds for one connection before the load begins.
CONNECT_S = 1.0


async def generate(task: GeneratorTask, start_s: float, *, real_time: bool) -> GeneratorResult:
    """Sends everything; returns after the last answer. `start_s`: of the monotonic clock; `real_time` is passed on."""
    if task.loop == "open" and not task.planned_s:
        return GeneratorResult([], 0.0, 0.0, real_time)
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
        found = answer.headers
        return Reply(answer.status, answer.content, None, found.get(RETRY_AFTER, ""), found.get(CACHED_RESULTS, ""))

    try:
        with PreciseClock(start_s) as clock:
            await clock.until(0.0)
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            records: list[SendRecord] = []
            async with asyncio.TaskGroup() as group:
                planned = partial(planned_until, task)
                telling = group.create_task(write_counts(records, planned, clock, sys.stdout.fileno()))
                if task.loop == "open":
                    await open_loop(task.planned_s, send, clock, task.in_flight, records)
                else:
                    await closed_loop(task.in_flight, task.seconds, send, clock, records)
                telling.cancel()
            return GeneratorResult(records, time.process_time() - began_cpu_s, time.monotonic() - began_s, real_time)
    finally:
        await calls.aclose()


async def reached(url: str) -> str:
    """Returns the address at which the host of a URL takes connections, the host itself where it takes none.

    So a name is looked up once, and not within a request's time.
    """
    parts = urlsplit(url)
    host, port = parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)
    assert host is not None  # whoever made the task has checked the URL
    with contextlib.suppress(OSError):
        async with asyncio.timeout(CONNECT_S):
            _, writer = await asyncio.open_connection(host, port)
            address: str = writer.get_extra_info("peername")[0]
            writer.close()
            return address
    return host


def planned_until(task: GeneratorTask, now_s: float, done: int) -> tuple[int, int]:
    """Returns how many requests were planned until a time, and how many are in flight when `done` have ended."""
    if task.loop == "closed":
        return done, task.in_flight
    planned = bisect_right(task.planned_s, now_s)
    return planned, max(0, planned - done)


def main(folder: Path) -> None:
    """Runs one task. Ends without a result when its parent ends before the start."""
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
