"""Computes percentiles of response times by nearest rank: always observed values, never interpolated."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from services.contracts.base import Count, Wire

# With fewer samples a 99th percentile is mostly chance, so none is reported (MLPerf's early stopping needs 662).
MIN_SAMPLES_FOR_P99 = 662
# By so much the later half's median may differ from the earlier half's, besides what chance explains.
DRIFT_LIMIT = 0.10
DOUBTFUL = "?"  # behind every time that does not hold


@dataclass(frozen=True, slots=True)
class Timed:
    """Milliseconds, None where there are none, and whether they hold. None is shown, drawn or judged without both."""

    _ms: float | None
    valid: bool | None  # None: of a release that did not record it

    @property
    def held_ms(self) -> float | None:
        """The milliseconds, to judge or draw them; None where they do not hold."""
        return None if self.valid is False else self._ms

    def cell(self, digits: int = 1) -> str:
        """Renders the number, marked where it does not hold, or a dash."""
        return "–" if self._ms is None else f"{self._ms:z.{digits}f}{DOUBTFUL if self.valid is False else ''}"


class Latency(Wire):
    """Milliseconds from sending a request to the last byte read, over the `n` answered queries."""

    p50: FiniteFloat | None
    p95: FiniteFloat | None
    p99: FiniteFloat | None  # null below 662 samples, and where the times of the run are not valid
    max: FiniteFloat | None
    n: Count
    drift: FiniteFloat | None  # median of the later half over that of the earlier half; far from 1: not stationary
    valid: bool | None = None  # whether the times hold, as `timing_valid` of the report; null: none, or an old release

    def timed(self, name: Literal["p50", "p95", "p99", "max"]) -> Timed:
        """Returns one of the times with whether it holds."""
        times = {"p50": self.p50, "p95": self.p95, "p99": self.p99, "max": self.max}
        return Timed(times[name], self.valid)


def percentile(ordered: Sequence[float], share: float) -> float:
    """Returns the nearest-rank percentile of ascending values: the smallest that `share` of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(samples_ms: Sequence[float]) -> Latency:
    """Computes the figures of samples in the order of measurement."""
    if not samples_ms:
        return Latency(p50=None, p95=None, p99=None, max=None, n=0, drift=None)
    ordered = sorted(samples_ms)
    half = len(samples_ms) // 2
    earlier, later = sorted(samples_ms[:half]), sorted(samples_ms[half:])
    return Latency(
        p50=percentile(ordered, 0.50),
        p95=percentile(ordered, 0.95),
        p99=percentile(ordered, 0.99) if len(ordered) >= MIN_SAMPLES_FOR_P99 else None,
        max=ordered[-1],
        n=len(ordered),
        drift=percentile(later, 0.5) / percentile(earlier, 0.5) if half and earlier[0] > 0 else None,
    )


def drift_in_words(ratio: float) -> str:
    """Returns how far times are from those before them: `took 12% longer than`, `took 49% less time than`."""
    return f"took {ratio - 1:.0%} longer than" if ratio > 1 else f"took {1 - ratio:.0%} less time than"
