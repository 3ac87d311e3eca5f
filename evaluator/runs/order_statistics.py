"""Says between which values a figure lies: intervals from order statistics. Pure.

Leaves intervals of ratios to ratios.py, and what times mean to points.
"""

from collections.abc import Sequence
from functools import lru_cache

from pydantic import FiniteFloat

CONFIDENCE = 0.95  # of every interval of load that does not name another

Interval = tuple[FiniteFloat, FiniteFloat]


def percentile_interval(ordered: Sequence[float], share: float) -> Interval | None:
    """Returns two of the ascending values between which the percentile lies with 95 % confidence, or None.

    The number of values below the percentile is binomial; the values are taken as independent (Conover 1999, 3.2).
    """
    low, high = _ranks(len(ordered), share)
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 and high <= len(ordered) else None


# The figures of a point are of the same number of requests, and a quantile by scipy takes a millisecond.
@lru_cache(maxsize=1024)
def _ranks(n: int, share: float) -> tuple[int, int]:
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    low, high = binom.ppf([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], n, share)
    return int(low), int(high) + 1


def median_interval(ordered: Sequence[float]) -> tuple[Interval, float]:
    """Returns two of at least two ascending values between which the median lies, and with which confidence.

    The two are as near to the middle as 95 % allows. Fewer than 6 values do not reach it: then the smallest and the
    greatest, with the confidence they have, 1 - 2^(1-n) (Conover 1999, 3.2).
    """
    from scipy.stats import binom

    n = len(ordered)
    # The median is left of the value at `rank`, or right of its mirror, with these chances.
    outside: list[float] = (2 * binom.cdf(range(n // 2), n, 0.5)).tolist()
    rank = max((at for at, chance in enumerate(outside) if chance <= 1 - CONFIDENCE), default=0)
    return (ordered[rank], ordered[n - 1 - rank]), 1 - outside[rank]
