"""Computes tests, intervals and power of paired differences. Pure: takes numbers and a seed, reads no file.

A difference is the second system's value of a query minus the first one's. Leaves words to `verdict`.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ALPHA = 0.05
POWER = 0.8
RESAMPLES = 9_999  # with the observed one 10,000: the smallest p is 0.0001
# Sums of the same terms in another order differ by less; no metric of 10,000 hits has a smaller step.
ROUNDING = 1e-9
# Elements a batch of resamples holds: 16 MB of floats, however many queries there are.
BATCH = 2_000_000
# Below the one effect size millions of queries are needed, and the t distribution is normal; above the other one two
# or three queries are enough, and scipy has no power of a yet larger one.
SMALLEST_EFFECT, LARGEST_EFFECT = 0.001, 1_000.0


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


def sign_flip_p(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> float:
    """Returns p of the two-sided paired randomisation test of mean 0 (Smucker et al. 2007, section 3.4).

    p = (b + 1) / (n + 1): b of n random sign flips have a mean at least as far from 0. With few queries all flips are
    tried, the observed one among them.
    """
    return _sign_flip_p(tuple(values), seed, resamples) if len(values) > 1 and any(values) else 1.0


# The steps, the report and each of its pages ask for the same differences. 64 metrics of 7,000 queries are 14 MB.
@lru_cache(maxsize=64)
def _sign_flip_p(values: tuple[float, ...], seed: int, resamples: int) -> float:
    import numpy as np
    from scipy import stats  # type: ignore[import-untyped]  # ships no types

    def distance(flipped: "NDArray[np.float64]", axis: int = -1) -> "NDArray[np.float64]":
        return np.asarray(np.abs(np.mean(flipped, axis=axis)))

    result = stats.permutation_test(
        (np.asarray(values, dtype=np.float64),),
        distance,
        permutation_type="samples",
        vectorized=True,
        alternative="greater",  # of |mean|; "two-sided" would double the smaller tail
        n_resamples=resamples,
        batch=_batch(values),
        rng=np.random.default_rng(seed),
    )
    return float(result.pvalue)


def bca_interval(values: Sequence[float], seed: int, resamples: int = RESAMPLES) -> tuple[float, float]:
    """Returns the 95 % BCa bootstrap interval of the mean (Efron 1987); equal values give an interval of width 0."""
    return _bca_interval(tuple(values), seed, resamples) if _deviation(values) else (values[0], values[0])


@lru_cache(maxsize=64)
def _bca_interval(values: tuple[float, ...], seed: int, resamples: int) -> tuple[float, float]:
    import numpy as np
    from scipy import stats

    within = stats.bootstrap(
        (np.asarray(values, dtype=np.float64),),
        np.mean,
        method="BCa",
        confidence_level=1 - ALPHA,
        n_resamples=resamples,
        batch=_batch(values),
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return float(within.low), float(within.high)


def interval(values: Sequence[float], seed: int) -> tuple[float, float] | None:
    """Returns `bca_interval`; None for a single value, of which nothing is known but itself."""
    return bca_interval(values, seed) if len(values) > 1 else None


def holm(ps: Sequence[float]) -> tuple[float, ...]:
    """Returns the p values of a family adjusted after Holm (1979), in the same order.

    Ours, because multipletests of statsmodels runs a full garbage collection in each call: 45 ms and more.
    """
    adjusted, reached = dict.fromkeys(range(len(ps)), 0.0), 0.0
    for rank, place in enumerate(sorted(adjusted, key=ps.__getitem__)):
        reached = max(reached, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = reached
    return tuple(adjusted.values())


def effect_size(values: Sequence[float]) -> float | None:
    """Returns Cohen's d of paired samples, mean over standard deviation; None when all differences are equal."""
    spread = _deviation(values)
    return mean(values) / spread if spread else None


def minimum_detectable(values: Sequence[float], family: int = 1) -> float | None:
    """Returns the mean difference that a test of this many queries finds with 80 % power at 5 % (paired t test).

    In a `family` the level is divided by its size, the first step of Holm. None when no difference can be found: all
    differences are equal, or there are so few queries that no sign flip reaches the level.
    """
    spread = _deviation(values)
    return None if too_few(len(values), family) or not spread else _detectable(len(values), ALPHA / family) * spread


def too_few(queries: int, family: int = 1) -> bool:
    """Returns whether not even a difference of one sign on every query reaches the level: p is 2 / 2^queries then."""
    return 2.0 ** (1 - queries) > ALPHA / family


def queries_needed(values: Sequence[float], family: int = 1) -> int | None:
    """Returns how many queries would find the mean difference seen with 80 % power; None when it is 0 or certain.

    There are never fewer than `too_few` asks for.
    """
    effect = effect_size(values)
    if not effect:
        return None
    least = next(queries for queries in count(2) if not too_few(queries, family))
    return max(least, _queries(abs(effect), ALPHA / family, sides=2))


def queries_for_margin(values: Sequence[float], margin: float) -> int | None:
    """Returns how many queries show with 80 % power that two equal systems differ by less than `margin` to one side.

    Takes the spread of `values`, and the one-sided test of `above_p`. None where all values are equal.
    """
    spread = _deviation(values)
    return _queries(margin / spread, ALPHA, sides=1) if spread else None


def above_p(values: Sequence[float], bound: float) -> float:
    """Returns p of the one-sided paired t test that the mean does not exceed `bound`.

    Equal values have no t; their p is that of a sign-flip test, 1 / 2^n, so that two or three queries show nothing.
    """
    if not _deviation(values):
        return 2.0 ** -len(values) if mean(values) > bound else 1.0
    from scipy import stats

    return float(stats.ttest_1samp(values, bound, alternative="greater").pvalue)


def equivalence_p(values: Sequence[float], margin: float) -> float:
    """Returns p of two one-sided t tests (Schuirmann 1987): small when the mean lies between -margin and margin."""
    return max(above_p(values, -margin), above_p([-value for value in values], -margin))


def mean(values: Sequence[float]) -> float:
    """Returns the arithmetic mean, summed without rounding."""
    return math.fsum(values) / len(values)


def _deviation(values: Sequence[float]) -> float:
    """Returns the sample standard deviation; 0 for equal values and for a single one."""
    if len(values) < 2 or max(values) - min(values) < ROUNDING:
        return 0.0
    centre = mean(values)
    return math.sqrt(math.fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


@cache
def _detectable(queries: int, level: float) -> float:
    """Returns the effect size that a two-sided paired t test of so many queries finds with 80 % power."""
    return _root(lambda effect: _power(queries, effect, level, sides=2), _normal(level, 2) / math.sqrt(queries))


@cache
def _queries(effect: float, level: float, sides: int) -> int:
    """Returns how many queries a paired t test needs to find an effect size above 0 with 80 % power; at least 2."""
    effect = min(effect, LARGEST_EFFECT)
    least = max(2.0, (_normal(level, sides) / effect) ** 2)
    if effect < SMALLEST_EFFECT:
        return math.ceil(least)
    return math.ceil(_root(lambda queries: _power(queries, effect, level, sides), least))


def _normal(level: float, sides: int) -> float:
    """Returns the effect size times the root of the queries at 80 % power, were the standard deviation known."""
    from scipy.special import ndtri  # type: ignore[import-untyped]

    return float(-ndtri(level / sides) + ndtri(POWER))


def _root(power: Callable[[float], float], low: float) -> float:
    """Returns where a growing power reaches 80 %: `low` where it has done so there."""
    from scipy.optimize import brentq  # type: ignore[import-untyped]

    if power(low) >= POWER:
        return low
    high = next(bound for step in count(1) if power(bound := low * 2.0**step) >= POWER)
    return float(brentq(lambda at: power(at) - POWER, low, high))


def _power(queries: float, effect: float, level: float, sides: int) -> float:
    """Returns how often a paired t test at `level` finds an effect size."""
    from scipy import special, stats

    freedom, away = queries - 1, effect * math.sqrt(queries)
    critical = special.stdtrit(freedom, 1 - level / sides)
    # The other tail as that of the mirrored distribution: nct.cdf is NaN where it is next to 0.
    return float(stats.nct.sf(critical, freedom, [away, -away][:sides]).sum())


def _batch(values: Sequence[float]) -> int:
    return max(1, BATCH // len(values))
