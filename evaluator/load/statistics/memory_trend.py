"""Computes how the memory of processes changed while a load ran. Pure; sending/process_watch.py reads it."""

from collections.abc import Sequence

from pydantic import FiniteFloat

from evaluator.machine.process_costs import MIB, STARTED_ANEW
from evaluator.runs.order_statistics import CONFIDENCE, Interval
from services.contracts.base import Count, Wire

# Memory moves in steps, so readings near one another are alike: means of blocks are compared, not readings.
BLOCKS = 10


class MemoryReading(Wire):
    """A line of load/memory.jsonl. Memory is what `ProcessCost` says it is."""

    seconds: FiniteFloat  # since the first reading
    memory_bytes: dict[str, Count | None]  # by process; null: it could not be read
    started_anew: tuple[str, ...] = ()  # processes that are others than at the reading before


class MemoryTrend(Wire):
    """Memory of a process while a load ran, and its slope over the later half of the time.

    The earlier half is left out because caches and heaps fill in it. An interval above 0 is growth; a bound on what
    grows later needs a longer load.
    """

    readings: Count
    seconds: FiniteFloat  # from the first of them to the last
    first_bytes: Count | None
    middle_bytes: Count | None  # the first reading of the later half
    last_bytes: Count | None
    mib_an_hour: FiniteFloat | None
    interval: Interval | None  # 95 %
    reason: str | None = None  # why there is no slope


def memory_trends(readings: Sequence[MemoryReading]) -> dict[str, MemoryTrend]:
    """Returns the trend of each process."""
    names = dict.fromkeys(name for reading in readings for name in reading.memory_bytes)
    return {name: _trend(name, readings) for name in names}


def _trend(name: str, readings: Sequence[MemoryReading]) -> MemoryTrend:
    known = [(one.seconds, value) for one in readings if (value := one.memory_bytes.get(name)) is not None]
    if not known:
        return MemoryTrend(readings=0, seconds=0.0, first_bytes=None, middle_bytes=None, last_bytes=None,
                           mib_an_hour=None, interval=None, reason="its memory could not be read")  # fmt: skip
    half = (known[0][0] + known[-1][0]) / 2
    later = [one for one in known if one[0] >= half]
    reason, slope = None, None
    if any(name in one.started_anew for one in readings):
        reason = STARTED_ANEW
    elif len(later) < BLOCKS:
        reason = f"a slope needs {BLOCKS} readings in the later half of the load; there were {len(later)}"
    else:
        slope = memory_slope(later)
    return MemoryTrend(
        readings=len(known),
        seconds=known[-1][0] - known[0][0],
        first_bytes=known[0][1],
        middle_bytes=later[0][1],
        last_bytes=known[-1][1],
        mib_an_hour=None if slope is None else slope[0],
        interval=None if slope is None else slope[1:],
        reason=reason,
    )


def memory_slope(readings: Sequence[tuple[float, int]]) -> tuple[float, float, float]:
    """Returns slope and 95 % interval in MiB an hour. `readings`: seconds and bytes, at least `BLOCKS` of them.

    Least squares over the means of equal blocks in the order of time, with Student's t.
    """
    import numpy as np
    from scipy.stats import linregress, t  # type: ignore[import-untyped]  # ships no types

    blocks = np.array_split(np.array(readings, dtype=float) / (3600.0, MIB), BLOCKS)
    means = np.array([block.mean(axis=0) for block in blocks])
    if np.ptp(means[:, 1]) == 0:
        return 0.0, 0.0, 0.0  # linregress divides by the variance
    fitted = linregress(means[:, 0], means[:, 1])
    width = float(t.ppf((1 + CONFIDENCE) / 2, BLOCKS - 2) * fitted.stderr)
    return float(fitted.slope), float(fitted.slope) - width, float(fitted.slope) + width
