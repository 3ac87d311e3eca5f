"""Calibrates a family of paired comparisons at once: p values and intervals that hold together. Pure.

Single-step min-p over both directions of every pair (Westfall and Young 1993, section 2.3), by a bootstrap over
queries whose means are studentised (Efron and Tibshirani 1993, section 12.5). All pairs share one set of draws, so that
correlated systems need no model. An interval leaves out 0 exactly where p is below the level.

No method keeps its level for every skewed mean (Bahadur and Savage 1956).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from evaluator.metrics.paired_differences import ALPHA, BATCH, ROUNDING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

DRAWS = 99_999
SEED = 20_261_128  # one for all, so that a run and a comparison of its pipelines state the same
POWER_QUANTILE = 0.8416  # of the normal distribution, for 80 % power


@dataclass(frozen=True, slots=True)
class Calibrated:
    """The mean of a pair's differences, in its family.

    `p`: of both directions, adjusted for the family. `interval`: 95 %, simultaneous; None where so few queries bound
    nothing: p is 1 then. `detectable`: the mean that as many queries show with 80 % power; `needed`: the queries that
    show the mean seen. None where the differences do not vary, where their mean is 0, and without an interval.
    """

    mean: float
    p: float
    interval: tuple[float, float] | None
    detectable: float | None = None
    needed: int | None = None

    @property
    def shown(self) -> bool:
        """Whether the mean is shown to differ from 0."""
        return self.p < ALPHA

    @property
    def turned(self) -> "Calibrated":
        """The same of the differences with the other sign."""
        interval = None if self.interval is None else (-self.interval[1], -self.interval[0])
        return replace(self, mean=-self.mean, interval=interval)


def calibrate(family: Sequence[Mapping[str, float]], draws: int | None = None) -> tuple[Calibrated, ...]:
    """Calibrates pairs, each given as its difference by query, of which it has at least one, perhaps of its own.

    The order of queries and pairs, and which side of a pair is the first, change no figure.
    """
    queries = sorted({query for pair in family for query in pair})
    pairs = [[pair.get(query) for query in queries] for pair in family]
    turned = [next((value for value in pair if value), 0.0) < 0 for pair in pairs]
    ahead = [
        tuple(None if value is None else -value if turn else value for value in pair)
        for pair, turn in zip(pairs, turned, strict=True)
    ]
    ordered = sorted(set(ahead), key=lambda pair: [(value is None, value or 0.0) for value in pair])
    found = dict(zip(ordered, _calibrated(tuple(ordered), draws or DRAWS), strict=True))
    return tuple(found[pair].turned if turn else found[pair] for pair, turn in zip(ahead, turned, strict=True))


# Report, pages and comparisons of a run ask for the same families.
@lru_cache(maxsize=16)
def _calibrated(family: tuple[tuple[float | None, ...], ...], draws: int) -> tuple[Calibrated, ...]:
    if not family:
        return ()
    import numpy as np

    values = np.array([[math.nan if value is None else value for value in pair] for pair in family])
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    means = np.array([math.fsum(pair[has].tolist()) for pair, has in zip(values, known, strict=True)]) / counts
    centred = np.where(known, values - means[:, None], 0.0)
    centred[np.abs(centred) < ROUNDING] = 0.0
    errors = np.sqrt((centred**2).sum(axis=1) / np.maximum(counts - 1, 1) / counts)
    drawn = _drawn_means(known, centred, draws)
    differing = (np.abs(values) >= ROUNDING).sum(axis=1)
    ascending = np.sort(drawn, axis=1)
    # Of each draw the least rank of a pair; a rank counts the draws that are as far to that side.
    least = np.full(draws, draws)
    for pair, ordered in zip(drawn[errors > 0], ascending[errors > 0], strict=True):
        np.minimum(least, draws - np.searchsorted(ordered, pair, side="left"), out=least)
        np.minimum(least, np.searchsorted(ordered, pair, side="right"), out=least)
    least.sort()
    return tuple(
        _in_family(mean, error, count, flips, ordered, least)
        for mean, error, count, flips, ordered in zip(
            means.tolist(), errors.tolist(), counts.tolist(), differing.tolist(), ascending, strict=True
        )
    )


def _in_family(
    mean: float, error: float, queries: int, differing: int, ordered: "NDArray[np.float64]", least: "NDArray[np.int64]"
) -> Calibrated:
    """Reads p and interval of a pair. `ordered`: its drawn means; `least`: the least ranks of the family's draws."""
    draws = len(ordered)
    # Up to this rank a mean is shown: of a pair alone half of the level to each side.
    reach = min(int(least[math.ceil(ALPHA * (draws + 1)) - 2]) - 1, int(ALPHA / 2 * draws))
    if 1 + int(draws * 0.5**queries) > reach:
        return Calibrated(mean, 1.0, None)
    # One sign flip in so many has a mean as far: if few queries differ, they show nothing.
    rank = 1 + int(draws * 0.5**differing)
    low, high = float(ordered[reach - 1]), float(ordered[draws - reach])
    if not error:
        if abs(mean) < ROUNDING:
            return Calibrated(mean, 1.0, (min(mean, 0.0), max(mean, 0.0)))
        return Calibrated(mean, _p(rank, least), (mean, mean))
    below = int(ordered.searchsorted(mean / error, side="left" if mean > 0 else "right"))
    rank = max(rank, 1 + (draws - below if mean > 0 else below))
    away = (high if mean > 0 else -low) + POWER_QUANTILE
    bounds = [mean - high * error, mean - low * error]
    if rank > reach:
        bounds = [min(bounds[0], 0.0), max(bounds[1], 0.0)]
    return Calibrated(
        mean=mean,
        p=_p(rank, least),
        interval=(bounds[0], bounds[1]),
        detectable=(max(high, -low) + POWER_QUANTILE) * error,
        needed=math.ceil(queries * (away * error / mean) ** 2) if abs(mean) >= ROUNDING else None,
    )


def _p(rank: int, least: "NDArray[np.int64]") -> float:
    reached = 1 + int(least.searchsorted(rank, side="right"))
    return min(1.0, max(reached, 2 * rank) / (len(least) + 1))


def _drawn_means(known: "NDArray[np.bool_]", centred: "NDArray[np.float64]", draws: int) -> "NDArray[np.float64]":
    """Draws queries, and returns each pair's mean over its standard error: [pairs, draws].

    The spread of a draw counts that of the sample as one query more: without it, a draw that misses the few queries
    that differ has none, and bounds nothing. 0 where no query of a pair was drawn.
    """
    import numpy as np

    pairs, queries = centred.shape
    dice, size = np.random.default_rng(SEED), max(1, BATCH // queries)
    columns = np.concatenate([centred, centred**2, known]).T
    own = (centred**2).sum(axis=1) / known.sum(axis=1)
    drawn = np.empty((pairs, draws))
    for start in range(0, draws, size):
        many = min(size, draws - start)
        picked = dice.integers(0, queries, (many, queries)) + np.arange(many)[:, None] * queries
        times = np.bincount(picked.ravel(), minlength=many * queries).reshape(many, queries).astype(np.float64)
        sums, squares, counts = np.split((times @ columns).T, 3)
        with np.errstate(divide="ignore", invalid="ignore"):
            shifts = sums / counts
            spreads = np.maximum(squares - sums * shifts, 0.0) + own[:, None]
            studentised = shifts / np.sqrt(spreads / (counts + 1) / np.maximum(counts - 1, 1))
        drawn[:, start : start + many] = np.nan_to_num(studentised)
    return drawn
