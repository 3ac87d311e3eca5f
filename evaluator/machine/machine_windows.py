"""Reads the machine's counters every few seconds of a measurement, so that a busy part is not averaged away.

Which limits there are is machine_conditions.py's; how the times are judged is left to the callers.
"""

import asyncio
from collections.abc import Awaitable, Collection, Iterable, Iterator
from typing import TypeVar

from evaluator.machine.machine_conditions import (
    MachineConditions,
    MachineCounters,
    condition_faults,
    conditions_between,
    read_conditions,
)

# A reading takes milliseconds. A slice of 7.5 s and the start of its generators have two windows.
WINDOW_S = 5.0
# The least length of a counted window: clocks tick in 10 ms, and a shorter one is noise.
LEAST_WINDOW_S = WINDOW_S / 2
# A p95 is of one request in twenty: what disturbs more of the time than that can decide it.
MOST_BUSY_WINDOWS = 0.05

T = TypeVar("T")


class ConditionsMeter:
    """Holds the readings of one measurement: the first, and the last one that ended a window."""

    def __init__(self, measured: Collection[int] | None, counters: MachineCounters | None = None) -> None:
        """`measured`: as in `read_conditions`. `counters`: of tests."""
        self._measured = measured
        self._counters = counters or MachineCounters()
        self._first = self._last = read_conditions(measured, self._counters)
        self._windows = self._busy = 0

    @property
    def due(self) -> bool:
        """Whether a window is over. Who times in this process reads between what it times: a reading takes a while."""
        return self._counters.clock() - self._last.at_s >= WINDOW_S

    def read(self) -> MachineConditions:
        """Reads now, counts the window that ends, and returns the conditions since the beginning."""
        now = read_conditions(self._measured, self._counters)
        if now.at_s - self._last.at_s >= LEAST_WINDOW_S:
            self._windows += 1
            self._busy += _beyond(conditions_between(self._last, now))
            self._last = now
        whole = conditions_between(self._first, now)
        return whole.model_copy(update={"windows": self._windows, "busy_windows": self._busy})


async def metered(
    work: Awaitable[T], measured: Collection[int] | None, counters: MachineCounters | None = None
) -> tuple[T, MachineConditions]:
    """Awaits work and returns its result with the conditions meanwhile, read every `WINDOW_S` in this process."""
    meter = ConditionsMeter(measured, counters)
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WINDOW_S))[0]:
            meter.read()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    return task.result(), meter.read()


def joined_conditions(parts: Iterable[MachineConditions]) -> MachineConditions:
    """Returns the conditions of at least one part as of one measurement: means over the time, and all windows.

    A part without windows is a window. `frequency` is the least.
    """
    given = tuple(parts)
    frequencies = [one.frequency for one in given if one.frequency is not None]
    return MachineConditions(
        seconds=sum(one.seconds for one in given),
        cores=given[0].cores,
        foreign=_mean((one.foreign, one.seconds) for one in given),
        steal=_mean((one.steal, one.seconds) for one in given),
        throttled=_mean((one.throttled, one.seconds) for one in given),
        pressure=_mean((one.pressure, one.seconds) for one in given),
        frequency=min(frequencies, default=None),
        windows=sum(one.windows or 1 for one in given),
        busy_windows=sum(one.busy_windows if one.windows else _beyond(one) for one in given),
    )


def window_faults(conditions: MachineConditions) -> Iterator[str]:
    """Yields a sentence for each condition under which times mean little: of the whole, else of its windows."""
    whole = list(condition_faults(conditions))
    yield from whole
    busy, windows = conditions.busy_windows, conditions.windows
    if not whole and busy > MOST_BUSY_WINDOWS * windows:
        yield (
            f"in {busy} of {windows} windows of {WINDOW_S:g} s other processes, steal or throttling were beyond their "
            f"limits (at most {MOST_BUSY_WINDOWS:.0%} of the windows)"
        )


def _beyond(conditions: MachineConditions) -> bool:
    return any(True for _ in condition_faults(conditions))


def _mean(shares: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(share, seconds) for share, seconds in shares if share is not None]
    whole = sum(seconds for _, seconds in known)
    return sum(share * seconds for share, seconds in known) / whole if whole else None
