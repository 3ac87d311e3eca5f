"""Drives servers with a known law of service, and compares every wait with queueing theory."""

import asyncio
import statistics
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

from evaluator.load.sending.drives import generators_for, run_generators
from evaluator.load.sending.load_loop import GeneratorTask, LoopKind, SendRecord
from evaluator.load.sending.traffic import arrival_times
from evaluator.runs.latency import percentile
from tests.soak.outcome import Bar, Outcome
from tests.support.processes import ROOT

REQUESTS = 5_000
SERVICE_MS = 10.0
SAYS = (
    "The load generators drive a server over loopback whose law of service is known. *Queue*: one server, 10 ms a "
    "request. Each wait is compared with Lindley's recursion on the planned arrivals; *path* is the median time beyond "
    "the service of requests that find the server free, and is no wait. *Stall*: 1 ms a request, and none is "
    "answered during the first second of every ten. *Fixed*: 5 ms a request, all at once, at a high rate: how "
    "late requests leave.\n\nLate sends and a busy machine lengthen waits: on shared cores these bars say little."
)


@asynccontextmanager
async def served(kind: str, service_ms: float) -> AsyncIterator[str]:
    """Yields the address of a stub in a process of its own."""
    command = (sys.executable, "-m", "tests.soak.load_stub", kind, str(service_ms))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(await process.stdout.readline())}/"
    finally:
        process.kill()
        await process.wait()


async def sent(url: str, times: Sequence[float], rate: float) -> list[SendRecord]:
    """Sends requests at these times, open loop; returns them in planned order."""
    count = generators_for(rate)
    results = await run_generators([task(url, times[at::count]) for at in range(count)])
    return sorted((record for one in results for record in one.records), key=lambda record: record.planned_s)


def task(url: str, times: Sequence[float], in_flight: int = 5_000, seconds: float = 0.0) -> GeneratorTask:
    """Returns the task of one generator; without times a closed loop."""
    loop: LoopKind = "open" if times else "closed"
    return GeneratorTask(loop, url, {}, (b"{}",), (0,) * max(1, len(times)), tuple(times), in_flight, seconds, 60.0)


def lindley(planned: Sequence[float], service_s: float) -> list[float]:
    """Returns the waits of a queue with one server (Lindley 1952)."""
    waits = [0.0]
    for earlier, later in pairwise(planned):
        waits.append(max(0.0, waits[-1] + service_s - (later - earlier)))
    return waits


def lag_p99_ms(records: Sequence[SendRecord]) -> float:
    return percentile(sorted((one.sent_s - one.planned_s) * 1000 for one in records if one.sent_s is not None), 0.99)


def delayed(records: Sequence[SendRecord]) -> int:
    """Counts requests that a stall delayed: by more than 20 ms."""
    return sum(one.done_s - one.planned_s > 0.02 for one in records)


async def run(seed: int, size: int = REQUESTS) -> Outcome:
    """Runs all laws. `size`: requests of each load of the queue; the others last a hundredth of it in seconds."""
    rows: list[tuple[str, ...]] = []
    bars: list[Bar] = []
    for load in (0.5, 0.8, 0.9):
        rate = load * 1000 / SERVICE_MS
        times = arrival_times(rate, 1.2 * size / rate, "poisson", f"{seed} {load}")[:size]
        async with served("queue", SERVICE_MS) as url:
            records = await sent(url, times, rate)
        theory = [1000 * wait for wait in lindley(times, SERVICE_MS / 1000)]
        beyond = [1000 * (one.done_s - one.planned_s) - SERVICE_MS for one in records]
        # Loopback, HTTP and event loops: what a request takes that finds the server free.
        path = statistics.median(ms for ms, wait in zip(beyond, theory, strict=True) if wait == 0)
        waits = [ms - path for ms in beyond]
        mean, expected = statistics.fmean(waits), statistics.fmean(theory)
        apart = percentile(sorted(abs(ours - theirs) for ours, theirs in zip(waits, theory, strict=True)), 0.99)
        measured = f"mean wait {mean:.2f} ms, Lindley {expected:.2f} ms; 99 % of the waits within {apart:.2f} ms"
        lag = f"path {path:.2f} ms; send lag p99 {lag_p99_ms(records):.2f} ms"
        rows.append((f"queue at {load:.0%}", str(len(records)), f"{measured}; {lag}"))
        held = abs(mean / expected - 1) <= 0.05
        bars.append(Bar(f"mean wait at {load:.0%} within 5 %", f"{mean / expected - 1:+.1%}", held, needs_cores=True))
        answered = sum(one.reply is not None and one.reply.status == 200 for one in records)
        bars.append(Bar(f"every request at {load:.0%} is answered", str(answered), answered == len(times)))
    seconds = max(10.0, 10.0 * (size // 1_000))
    times = arrival_times(100, seconds, "poisson", f"{seed} stall")
    async with served("stall", 1.0) as url:
        opened = await sent(url, times, 100)
        closed = (await run_generators([task(url, (), 1, seconds)]))[0].records
    share = delayed(opened) / len(opened)
    rows.append(("stall, open loop", str(len(opened)), f"{share:.1%} of the requests delayed"))
    rows.append(("stall, closed loop", str(len(closed)), f"{delayed(closed)} requests delayed"))
    bars.append(Bar("a stall delays about 10 %", f"{share:.1%}", abs(share - 0.1) <= 0.03, needs_cores=True))
    times = arrival_times(1_000, seconds, "poisson", f"{seed} fixed")
    async with served("fixed", 5.0) as url:
        fast = await sent(url, times, 1_000)
    lag_ms = lag_p99_ms(fast)
    rows.append(("fixed at 1,000/s", str(len(fast)), f"send lag p99 {lag_ms:.2f} ms"))
    bars.append(Bar("send lag p99 at 1,000/s below 1 ms", f"{lag_ms:.2f} ms", lag_ms < 1.0, needs_cores=True))
    return Outcome("load", SAYS, seed, ("law", "requests", "measured"), tuple(rows), tuple(bars), ())
