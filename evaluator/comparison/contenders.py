"""Finds the systems that cannot be told from the best one: multiple comparisons with the best. Pure.

Hsu 1984 ("Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics
12) tests each system against the largest lead that any other has over it. The distribution of that lead is taken from
sign flips of whole queries (Westfall and Young 1993), so that correlated systems and values in steps need no model.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from evaluator.comparison.paired_tests import ALPHA, BATCH, RESAMPLES, ROUNDING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# All flips are tried up to this many queries: no more than RESAMPLES.
MOST_FOR_ALL_FLIPS = 13


def contenders(values: Sequence[Sequence[float]], seed: int, resamples: int = RESAMPLES) -> tuple[bool, ...]:
    """Returns whether each system may be the best. `values`: [systems][queries], of the same queries.

    A system is ruled out where p < 0.025: half of the level, as the test of a pair is two-sided, so that the two agree.
    The truly best one is ruled out in at most 2.5 % of samples.
    """
    import numpy as np

    scores = np.asarray(values, dtype=np.float64)
    systems, queries = scores.shape
    leads = [scores.T - one[:, None] for one in scores]  # of every system over this one, [queries, systems]
    units = []
    for lead in leads:
        lead[np.abs(lead) < ROUNDING] = 0.0
        length = np.sqrt((lead**2).sum(axis=0))
        units.append(lead / np.where(length > 0, length, 1.0))
    seen = np.array([unit.sum(axis=0).max() for unit in units])
    exact = queries <= MOST_FOR_ALL_FLIPS
    # Drawn flips leave out the observed one, which counts as one of them.
    tried, as_far = (2**queries, np.zeros(systems)) if exact else (resamples + 1, np.ones(systems))
    for flips in _all_flips(queries) if exact else _drawn_flips(queries, seed, resamples):
        for at, unit in enumerate(units):
            as_far[at] += ((flips @ unit).max(axis=1) >= seen[at] - ROUNDING).sum()
    return tuple(bool(count / tried >= ALPHA / 2) for count in as_far)


def _all_flips(queries: int) -> "Iterator[NDArray[np.float64]]":
    import numpy as np

    yield np.array(list(product((-1.0, 1.0), repeat=queries)))


def _drawn_flips(queries: int, seed: int, resamples: int) -> "Iterator[NDArray[np.float64]]":
    import numpy as np

    dice, size = np.random.default_rng(seed), max(1, BATCH // queries)
    for start in range(0, resamples, size):
        yield dice.choice([-1.0, 1.0], (min(size, resamples - start), queries))
