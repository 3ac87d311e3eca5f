"""Computes differences of the same queries and the interval of a mean. Pure: takes numbers and a seed, reads no file.

A difference is the second system's value of a query minus the first one's.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

ALPHA = 0.05
RESAMPLES = 9_999
# Sums of the same terms in another order differ by less; no metric of 10,000 hits has a smaller step.
ROUNDING = 1e-9
# Elements a batch of resamples holds: 16 MB of floats, however many queries there are.
BATCH = 2_000_000


def differences(first: Sequence[float], second: Sequence[float]) -> tuple[float, ...]:
    """Returns second minus first of each query; one that is rounding alone becomes 0, a tie."""
    values = (float(after - before) for before, after in zip(first, second, strict=True))
    return tuple(0.0 if abs(value) < ROUNDING else value for value in values)


def sorted_differences(values: Sequence[float], most: int = 201) -> tuple[float, ...]:
    """Returns the differences in ascending order; of more than `most` the quantiles at even steps (nearest rank)."""
    ordered = sorted(values)
    if len(ordered) <= most:
        return tuple(ordered)
    return tuple(ordered[round(at * (len(ordered) - 1) / (most - 1))] for at in range(most))


def bca_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Returns the 95 % BCa bootstrap interval of the mean (Efron 1987); equal values give an interval of width 0."""
    varies = max(values) - min(values) >= ROUNDING
    return _bca_interval(tuple(values), seed, resamples) if varies else (values[0], values[0])


# The steps, the report and each of its pages ask for the same values. 64 metrics of 7,000 queries are 14 MB.
@lru_cache(maxsize=64)
def _bca_interval(values: tuple[float, ...], seed: int, resamples: int) -> tuple[float, float]:
    import numpy as np
    from scipy import stats  # type: ignore[import-untyped]  # ships no types

    within = stats.bootstrap(
        (np.asarray(values, dtype=np.float64),),
        np.mean,
        method="BCa",
        confidence_level=1 - ALPHA,
        n_resamples=resamples,
        batch=max(1, BATCH // len(values)),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(within.low), float(within.high)


def interval(values: Sequence[float], seed: int) -> tuple[float, float] | None:
    """Returns `bca_interval`; None for a single value, of which nothing is known but itself."""
    return bca_interval(values, seed) if len(values) > 1 else None


def mean(values: Sequence[float]) -> float:
    """Returns the arithmetic mean, summed without rounding."""
    return math.fsum(values) / len(values)
