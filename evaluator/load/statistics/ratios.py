"""Compares the times of the same planned requests in one run, and repeats of one run, with intervals. Pure."""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, combinations
from statistics import median
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.statistics.slice_pairs import LEAST_PAIRS, SlicePair, log_ratios
from evaluator.runs.latency import percentile
from evaluator.runs.order_statistics import CONFIDENCE, Interval, median_interval
from services.contracts.base import Count, Wire

PercentileName = Literal["p50", "p95"]
Slices = Sequence[Sequence[float]]  # milliseconds, slice by slice, in planned order
SHARES: dict[PercentileName, float] = {"p50": 0.5, "p95": 0.95}
# Fewer show nothing of a percentile.
LEAST_REQUESTS = 20


class PercentileRatio(Wire):
    """How many times as long `second` takes as `first` at a percentile, in one kind of traffic."""

    traffic: str
    first: str  # a pipeline
    second: str  # another one; of a comparison with loading the same, `bm25 while loading`
    percentile: PercentileName
    ratio: FiniteFloat
    interval: Interval | None  # 95 %, from the spread of slices; null: fewer than 8
    n: Count  # requests of each
    block: Count  # requests that stand together: of the longest slice
    timing_valid: bool = True  # of both


class RepeatedFigure(Wire):
    """One figure over the repeats of a run."""

    values: tuple[FiniteFloat, ...]
    median: FiniteFloat
    interval: Interval  # of the median, from order statistics; of fewer than 6 repeats the least and the greatest value
    confidence: FiniteFloat = CONFIDENCE  # of the interval: 0.5, 0.75, 0.875, 0.9375 of 2 to 5 repeats


def percentile_ratios(
    traffic: str, slices_ms: Mapping[str, Slices], seed: int, doubtful: Collection[str] = ()
) -> tuple[PercentileRatio, ...]:
    """Returns the ratios of every two pipelines. `slices_ms`: of the same requests by pipeline, slice by slice.

    Pipelines with other slices, or with fewer than 20 requests, are left out. Slices are drawn, the same ones of every
    pipeline: pipelines run in different slices, which differ as a whole (slice_pairs.py). Fewer than 8 slices give no
    interval. `doubtful`: pipelines whose times are not valid.
    """
    n = max((sum(map(len, parts)) for parts in slices_ms.values()), default=0)
    if n < LEAST_REQUESTS:
        return ()
    sizes = next(lengths for parts in slices_ms.values() if sum(lengths := [len(part) for part in parts]) == n)
    names = [name for name, parts in slices_ms.items() if [len(part) for part in parts] == sizes]
    ordered = {name: sorted(chain.from_iterable(slices_ms[name])) for name in names}
    found = []
    for first, second in combinations(names, 2):
        intervals = _intervals(slices_ms[first], slices_ms[second], seed)
        for name, share in SHARES.items():
            found.append(
                PercentileRatio(
                    traffic=traffic,
                    first=first,
                    second=second,
                    percentile=name,
                    ratio=percentile(ordered[second], share) / percentile(ordered[first], share),
                    interval=intervals.get(name),
                    n=n,
                    block=max(sizes),
                    timing_valid=first not in doubtful and second not in doubtful,
                )
            )
    return tuple(found)


def loading_ratios(
    traffic: str,
    idle: Mapping[str, Slices],
    loading: Mapping[str, Slices],
    seed: int,
    doubtful: Collection[str] = (),
) -> Iterator[PercentileRatio]:
    """Yields for each pipeline how many times as long its requests took while the corpus was loaded.

    `idle`, `loading`: milliseconds of the same requests by pipeline, slice by slice. `doubtful`: pipelines whose times
    are not valid, idle or while loading.
    """
    for pipeline in idle:
        pair = {pipeline: idle[pipeline], f"{pipeline} while loading": loading[pipeline]}
        yield from percentile_ratios(traffic, pair, seed, doubtful)


def repeated_figure(values: Sequence[float]) -> RepeatedFigure:
    """Returns the median of a figure over at least two repeats, with its interval."""
    interval, confidence = median_interval(sorted(values))
    return RepeatedFigure(values=tuple(values), median=median(values), interval=interval, confidence=confidence)


def _intervals(first: Slices, second: Slices, seed: int) -> dict[PercentileName, Interval]:
    if len(first) < LEAST_PAIRS:
        return {}
    pairs = [SlicePair(*both) for both in zip(first, second, strict=True)]
    found = log_ratios(pairs, list(SHARES.values()), CONFIDENCE, seed)
    return {name: (math.exp(log - half), math.exp(log + half)) for name, (log, half) in zip(SHARES, found, strict=True)}
