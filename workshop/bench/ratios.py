"""Paired ratios of repeated measurements, and the order in which contenders take turns. Pure."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from services.contracts.base import Wire

T = TypeVar("T")

RESAMPLES = 10_000


class Interval(Wire):
    """The median of one ratio a round, and the bootstrap 95 % interval of that median over the rounds.

    With five rounds the interval is close to the smallest and the largest round: it claims no more than that.
    """

    median: float
    low: float
    high: float


def interval(values: Sequence[float], seed: int = 0) -> Interval:
    """The percentile bootstrap of the median, resampling whole rounds (samples within one are not independent)."""
    if not values:
        raise ValueError("an interval needs at least one round")
    rounds = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(0, len(rounds), size=(RESAMPLES, len(rounds)))
    low, high = np.percentile(np.median(rounds[drawn], axis=1), [2.5, 97.5])
    return Interval(median=float(np.median(rounds)), low=float(low), high=float(high))


def paired(numerators: Sequence[float], denominators: Sequence[float]) -> Interval:
    """The interval of numerator / denominator, each pair measured in the same round."""
    return interval([above / below for above, below in zip(numerators, denominators, strict=True)])


def order_of(contenders: Sequence[T], round_number: int) -> list[T]:
    """Who runs when: rotated by one every second round and turned round in between (ABBA).

    A machine that slows down, or speeds up, during the run then favours nobody.
    """
    by = (round_number // 2) % max(1, len(contenders))
    turned = [*contenders[by:], *contenders[:by]]
    return turned[::-1] if round_number % 2 else turned
