"""Says between which values a figure lies: intervals from order statistics. Pure.

Leaves intervals of ratios to ratios.py, and what times mean to points.
"""

from collections.abc import Sequence

from pydantic import FiniteFloat

CONFIDENCE = 0.95  # of every interval of load that does not name another

Interval = tuple[FiniteFloat, FiniteFloat]


def percentile_interval(ordered: Sequence[float], share: float) -> Interval | None:
    """Returns two of the ascending values between which the percentile lies with 95 % confidence, or None.

    The number of values below the percentile is binomial; the values are taken as independent (Conover 1999, 3.2).
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    n = len(ordered)
    low = int(binom.ppf((1 - CONFIDENCE) / 2, n, share))
    high = int(binom.ppf((1 + CONFIDENCE) / 2, n, share)) + 1
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 and high <= n else None


def median_interval(ordered: Sequence[float]) -> tuple[Interval, float]:
    """Returns two of at least two ascending values between which the median lies, and with which confidence.

    The two are as near to the middle as 95 % allows. Fewer than 6 values do not reach it: then the smallest and the
    greatest, with the confidence they have, 1 - 2^(1-n) (Conover 1999, 3.2).
    """
    from scipy.stats import binom

    n = len(ordered)
    # The median is left of the value at `rank`, or right of its mirror, with these chances.
    outside = [2 * float(binom.cdf(rank, n, 0.5)) for rank in range(n // 2)]
    rank = max((at for at, chance in enumerate(outside) if chance <= 1 - CONFIDENCE), default=0)
    return (ordered[rank], ordered[n - 1 - rank]), 1 - outside[rank]
