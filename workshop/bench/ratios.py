"""Computes paired ratios of repeated measurements. Pure."""

from collections.abc import Sequence

import numpy as np

from services.contracts.base import Wire

RESAMPLES = 10_000


class Interval(Wire):
    """The median of one ratio a round, and the bootstrap 95 % interval of that median over the rounds.

    With five rounds the interval is close to the smallest and the largest round.
    """

    median: float
    low: float
    high: float


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """Computes the percentile bootstrap of the median over whole rounds (samples within one are not independent)."""
    if not values:
        raise ValueError("an interval needs at least one round")
    rounds = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(rounds), size=(RESAMPLES, len(rounds)))
    low, high = np.percentile(np.median(rounds[drawn], axis=1), [2.5, 97.5])
    return Interval(median=float(np.median(rounds)), low=float(low), high=float(high))


def paired_ratio(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """Returns the interval of numerator / denominator, each pair measured in the same round."""
    return bootstrap_interval([above / below for above, below in zip(numerators, denominators, strict=True)])
