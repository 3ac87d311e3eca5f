"""Tells how a load is doing while it runs: generators count, a line a second, and the last ten seconds are summed up.

The figures of load.json do not come from here: answers are read after the run.
"""

import asyncio
import json
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import asdict, dataclass

from pydantic import FiniteFloat

from evaluator.load.sending.load_loop import SendClock, SendRecord
from services.contracts.base import Count, Wire

WINDOW_S = 10.0
EVERY_S = 1.0
# Latencies are counted in classes 5 % apart from 0.1 ms on.
LEAST_MS = 0.1
CLASS_WIDTH = math.log(1.05)
# A generator reads records for this long at most before requests may leave again.
RECORDS_AT_ONCE = 50
# The bound of a pipe: a line within it is written as a whole or not at all (pipe(7), PIPE_BUF).
LONGEST_LINE = 4_096
# As the gateway writes a SearchAnswer without a degradation.
NOT_DEGRADED = b'"degraded":[]'


class LiveFigures(Wire):
    """How a load has done in its last ten seconds, or since it began."""

    traffic: str  # pipeline and rate
    seconds: FiniteFloat  # since it began
    rate: FiniteFloat  # requests planned a second
    in_flight: Count
    p50_ms: FiniteFloat | None  # of the answers alone, to 5 %; null: no answer
    p99_ms: FiniteFloat | None
    degraded: Count
    lost: Count  # failed or dropped

    @property
    def line(self) -> str:
        """The figures in a line for the terminal."""
        times = (
            "no answer" if self.p50_ms is None else f"p50 {self.p50_ms:.0f} ms, p99 {self.p99_ms:.0f} ms of the answers"
        )
        return (
            f"{self.traffic}: {self.rate:.1f}/s, {self.in_flight} in flight, {times}, "
            f"{self.degraded} degraded, {self.lost} lost (last {min(self.seconds, WINDOW_S):.0f} s)"
        )


Listener = Callable[[LiveFigures], None]
# Ambient, so that nothing between a command or job and the generators needs to know of it.
_listener: ContextVar[Listener | None] = ContextVar("load_listener", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Calls the listener once a second with the figures of every load that runs within."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@dataclass(frozen=True, slots=True)
class GeneratorCounts:
    """What a generator saw within a second. `latencies`: answers by class."""

    planned: int
    in_flight: int
    degraded: int
    lost: int
    latencies: dict[int, int]

    @property
    def line(self) -> bytes:
        """The counts as a line."""
        return json.dumps(asdict(self), separators=(",", ":")).encode() + b"\n"


def read_counts(line: bytes) -> GeneratorCounts:
    """Reads a line."""
    content = json.loads(line)
    latencies = {int(number): count for number, count in content.pop("latencies").items()}
    return GeneratorCounts(**content, latencies=latencies)


# Takes the seconds since the start and how many requests were answered or dropped; returns how many were planned until
# then, and how many are in flight.
Planned = Callable[[float, int], tuple[int, int]]


async def write_counts(records: Sequence[SendRecord], planned: Planned, clock: SendClock, output: int) -> None:
    """Writes a line a second to a pipe until it is cancelled. `records`: grows meanwhile.

    A line that the pipe does not take is left out: nothing waits for it.
    """
    os.set_blocking(output, False)
    seen = before = 0
    while True:
        await asyncio.sleep(EVERY_S)
        latencies: Counter[int] = Counter()
        degraded = lost = 0
        end = len(records)
        while seen < end:
            for record in records[seen : min(seen + RECORDS_AT_ONCE, end)]:
                seen += 1
                reply = record.reply
                if reply is None or reply.status != 200:
                    lost += 1
                else:
                    latencies[latency_class((record.done_s - record.planned_s) * 1000)] += 1
                    degraded += NOT_DEGRADED not in reply.body
            await asyncio.sleep(0)
        until, in_flight = planned(clock.now(), seen)
        line = GeneratorCounts(until - before, in_flight, degraded, lost, dict(latencies)).line
        before = until
        if len(line) <= LONGEST_LINE:
            with suppress(BlockingIOError):
                os.write(output, line)


def latency_class(ms: float) -> int:
    """Returns the class of a latency."""
    return max(0, int(math.log(max(ms, LEAST_MS) / LEAST_MS) / CLASS_WIDTH))


class LiveLoad:
    """Sums up the lines of all generators of a load."""

    def __init__(self, traffic: str, generators: int) -> None:
        self._traffic = traffic
        self._lines = [deque[GeneratorCounts](maxlen=round(WINDOW_S / EVERY_S)) for _ in range(generators)]
        self._told = [0] * generators
        self._listener = _listener.get()

    def add_counts(self, generator: int, counts: GeneratorCounts) -> None:
        """Takes a line; after one of the last generator, calls the listener."""
        self._lines[generator].append(counts)
        self._told[generator] += 1
        if self._listener is not None and generator == len(self._lines) - 1:
            self._listener(self.figures())

    def figures(self) -> LiveFigures:
        """Returns the figures of the window."""
        window = [counts for lines in self._lines for counts in lines]
        latencies = sum((Counter(counts.latencies) for counts in window), Counter[int]())
        return LiveFigures(
            traffic=self._traffic,
            seconds=max(self._told) * EVERY_S,
            rate=sum(counts.planned for counts in window) / (max(map(len, self._lines)) * EVERY_S),
            in_flight=sum(lines[-1].in_flight for lines in self._lines if lines),
            p50_ms=class_percentile(latencies, 0.5),
            p99_ms=class_percentile(latencies, 0.99),
            degraded=sum(counts.degraded for counts in window),
            lost=sum(counts.lost for counts in window),
        )


def class_percentile(latencies: Counter[int], share: float) -> float | None:
    """Returns the upper bound of the class in which a percentile lies (nearest rank), or None without latencies."""
    rank, passed = math.ceil(share * latencies.total()), 0
    for number in sorted(latencies):
        passed += latencies[number]
        if passed >= rank:
            return LEAST_MS * math.exp((number + 1) * CLASS_WIDTH)
    return None
