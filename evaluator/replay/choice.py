"""Chooses among replayed points: the front of quality against cost, and a choice by nested cross-validation. Pure."""

import math
import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDS = 5
# Points × queries. numpy is imported where values are computed: every command of the evaluator imports this module.
Values: TypeAlias = "NDArray[np.float64]"


def front(means: Sequence[float], costs_ms: Sequence[float]) -> list[int]:
    """Returns the points that no other beats in both, the cheapest first.

    Of points with equal quality and cost the first counts.
    """
    order = sorted(range(len(means)), key=lambda at: (costs_ms[at], -means[at], at))
    kept: list[int] = []
    for at in order:
        if not kept or means[at] > means[kept[-1]]:
            kept.append(at)
    return kept


def folds(queries: int, count: int, seed: int) -> list[list[int]]:
    """Deals the numbers of queries to `count` folds of equal size, give or take one."""
    order = list(range(queries))
    random.Random(seed).shuffle(order)
    return [sorted(order[at::count]) for at in range(count)]


def best(means: Sequence[float], costs_ms: Sequence[float]) -> int:
    """Returns the point of the highest mean; of equal ones the cheapest, then the first."""
    return min(range(len(means)), key=lambda at: (-means[at], costs_ms[at], at))


def honest_mean(values: Values, costs_ms: Sequence[float], count: int, seed: int) -> tuple[float, list[int]]:
    """Returns the mean over queries that were held out when their point was chosen, and the point of each fold.

    NaN and no point where there are fewer than two folds: a single query cannot be held out.

    Nested cross-validation (Cawley and Talbot 2010, section 5): the choice is made anew without each outer fold. A
    point has no fitted parameters, so the mean over the inner folds is that over all queries that were not held out.
    """
    if count < 2:
        return math.nan, []
    import numpy as np

    held: list[float] = []
    chosen = []
    for fold in folds(values.shape[1], count, seed):
        others = np.delete(values, fold, axis=1)
        at = best(others.mean(axis=1).tolist(), costs_ms)
        chosen.append(at)
        held.extend(values[at, fold].tolist())
    return float(np.mean(held)), chosen
