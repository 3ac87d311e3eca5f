"""Finds the systems that cannot be told from the best one: multiple comparisons with the best. Pure.

Hsu 1984 ("Constrained simultaneous confidence intervals for multiple comparisons with the best", Annals of Statistics
12) tests each system against the largest lead that any other has over it. The distribution of that lead is taken from
sign flips of whole queries (Westfall and Young 1993), so that correlated systems and values in steps need no model.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.paired_tests import (
    ALPHA,
    BATCH,
    RESAMPLES,
    ROUNDING,
    differences,
    mean,
    queries_needed,
)
from evaluator.metrics.quality import PerQuery

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# All flips are tried up to this many queries: no more than RESAMPLES.
MOST_FOR_ALL_FLIPS = 13


@dataclass(frozen=True, slots=True)
class Standing:
    """The standing of a system against that with the highest mean, over the queries that have a value in all systems.

    `queries_to_tell`: those that find its difference from `best` with 80 % power; None for the best, or an equal one.
    """

    metric: str
    queries: int
    mean: float
    contends: bool
    best: str
    queries_to_tell: int | None


def standings_of(figures: Mapping[str, PerQuery], depth: int, seed: int) -> dict[str, Standing]:
    """Returns how the systems stand in the first metric of which more is better and that all have; else nothing.

    `figures`: system → metric → query → value, None where a query has none.
    """
    for metric in next(iter(figures.values()), {}):
        parsed, columns = parse_metric(metric), [per_query.get(metric, {}) for per_query in figures.values()]
        rows = [[column.get(query) for column in columns] for query in columns[0]]
        known = [[value for value in row if value is not None] for row in rows if None not in row]
        if not known or parsed.family.lower_is_better:
            continue
        values = dict(zip(figures, zip(*known, strict=True), strict=True))
        best = max(values, key=lambda system: mean(values[system]))
        return {
            system: Standing(
                metric=parsed.label(depth),
                queries=len(known),
                mean=mean(values[system]),
                contends=contends,
                best=best,
                queries_to_tell=queries_needed(differences(values[system], values[best])),
            )
            for system, contends in zip(values, contenders(tuple(values.values()), seed), strict=True)
        }
    return {}


def contenders(values: Sequence[Sequence[float]], seed: int, resamples: int = RESAMPLES) -> tuple[bool, ...]:
    """Returns whether each system may be the best. `values`: [systems][queries], of the same queries.

    A system is ruled out where p < 0.025: half of the level, as the test of a pair is two-sided, so that the two agree.
    The truly best one is ruled out in at most 2.5 % of samples.
    """
    import numpy as np

    scores = np.asarray(values, dtype=np.float64)
    systems, queries = scores.shape
    leads = [scores.T - score[:, None] for score in scores]  # of every system over this one, [queries, systems]
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
