"""Compares the times of the same planned requests in one run, and repeats of one run, with intervals. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.intervals import CONFIDENCE, Interval, median_interval
from services.contracts.base import Count, Wire

PercentileName = Literal["p50", "p95"]
SHARES: dict[PercentileName, float] = {"p50": 0.5, "p95": 0.95}
RESAMPLES = 1_999
# Fewer make blocks of one or two, and the interval then ignores that neighbours in time are alike.
LEAST_REQUESTS = 20


class PercentileRatio(Wire):
    """How many times as long `second` takes as `first` at a percentile, in one kind of traffic."""

    traffic: str
    first: str  # a pipeline
    second: str  # another one; of a comparison with loading the same, `bm25 while loading`
    percentile: PercentileName
    ratio: FiniteFloat
    interval: Interval  # 95 %, circular block bootstrap of the same requests
    n: Count  # requests of each
    block: Count  # requests that stand together, in planned order


class RepeatedFigure(Wire):
    """One figure over the repeats of a run."""

    values: tuple[FiniteFloat, ...]
    median: FiniteFloat
    interval: Interval  # of the median, from order statistics; of fewer than 6 repeats the least and the greatest value
    confidence: FiniteFloat = CONFIDENCE  # of the interval: 0.5, 0.75, 0.875, 0.9375 of 2 to 5 repeats


def percentile_ratios(traffic: str, times_ms: Mapping[str, Sequence[float]], seed: int) -> tuple[PercentileRatio, ...]:
    """Returns the ratios of every two pipelines. `times_ms`: of the same requests by pipeline, in their order.

    Pipelines with another number of requests, or with fewer than 20, are left out. Neighbours share what the machine
    did, and a queue, so blocks of n^(1/3) requests are drawn (Politis and Romano 1992), the same of every pipeline.
    """
    counts = [len(of_one) for of_one in times_ms.values()]
    n = max(counts, default=0)
    if n < LEAST_REQUESTS:
        return ()
    names = [name for name, of_one in times_ms.items() if len(of_one) == n]
    drawn = {name: _resampled(times_ms[name], seed) for name in names}
    found = []
    for first, second in combinations(names, 2):
        for percentile in SHARES:
            (own, resampled), (other, others) = drawn[first][percentile], drawn[second][percentile]
            found.append(
                PercentileRatio(
                    traffic=traffic,
                    first=first,
                    second=second,
                    percentile=percentile,
                    ratio=other / own,
                    interval=_interval([b / a for a, b in zip(resampled, others, strict=True)]),
                    n=n,
                    block=_block(n),
                )
            )
    return tuple(found)


def loading_ratios(
    traffic: str, idle: Mapping[str, Sequence[float]], loading: Mapping[str, Sequence[float]], seed: int
) -> Iterator[PercentileRatio]:
    """Yields for each pipeline how many times as long its requests took while the corpus was loaded.

    `idle`, `loading`: milliseconds of the same requests by pipeline, in their order.
    """
    for pipeline in idle:
        pair = {pipeline: idle[pipeline], f"{pipeline} while loading": loading[pipeline]}
        yield from percentile_ratios(traffic, pair, seed)


def repeated_figure(values: Sequence[float]) -> RepeatedFigure:
    """Returns the median of a figure over at least two repeats, with its interval."""
    interval, confidence = median_interval(sorted(values))
    return RepeatedFigure(values=tuple(values), median=median(values), interval=interval, confidence=confidence)


def _block(n: int) -> int:
    return round(math.cbrt(n))


def _resampled(values_ms: Sequence[float], seed: int) -> dict[PercentileName, tuple[float, list[float]]]:
    """Returns, by percentile, its value and its values in the resamples. Equal seeds draw the same requests."""
    import numpy as np

    n, block = len(values_ms), _block(len(values_ms))
    ring = np.array([*values_ms, *values_ms[: block - 1]])
    ranks = {name: max(0, math.ceil(share * n) - 1) for name, share in SHARES.items()}
    dice = np.random.default_rng(seed)
    offsets = np.arange(block)
    found: dict[PercentileName, list[float]] = {name: [] for name in SHARES}
    for _ in range(RESAMPLES):
        starts = dice.integers(0, n, size=math.ceil(n / block))
        drawn = np.partition(ring[(starts[:, None] + offsets).ravel()[:n]], list(ranks.values()))
        for name, rank in ranks.items():
            found[name].append(float(drawn[rank]))
    ordered = sorted(values_ms)
    return {name: (ordered[rank], found[name]) for name, rank in ranks.items()}


def _interval(values: Sequence[float]) -> Interval:
    import numpy as np

    low, high = np.quantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)
