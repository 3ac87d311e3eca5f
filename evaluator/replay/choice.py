"""Measures replayed pipelines query by query, and chooses one by nested cross-validation. Pure."""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evaluator.metrics.quality import Grades, measure

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FOLDS = 5
# Points × queries. numpy is imported where values are computed: every command of the evaluator imports this module.
Values: TypeAlias = "NDArray[np.float64]"


@dataclass(frozen=True, slots=True)
class QueryAnswers:
    """The distinct answers to a query, and the number of each point's; None: a leg or a score was not collected."""

    query: str
    distinct: Sequence[tuple[str, ...]]
    numbers: Sequence[int | None]

    def answer(self, point: int) -> tuple[str, ...] | None:
        """Returns a point's answer."""
        number = self.numbers[point]
        return None if number is None else self.distinct[number]


def measured(answers: Sequence[QueryAnswers], judgments: Grades, points: int, metric: str) -> Values:
    """Returns the metric by point and query; NaN where a point was not collected.

    A metric sees the grades of an answer, rank by rank, and no ids: of the answers to a query that have the same grades
    in the same places one is measured.
    """
    rankings: dict[str, tuple[str, ...]] = {}
    grades: dict[str, Mapping[str, int]] = {}
    names: list[list[str]] = []  # by query and distinct answer
    for at, of_query in enumerate(answers):
        judged = judgments.get(of_query.query, {})
        alike: dict[tuple[int | None, ...], str] = {}
        names.append([])
        for answer in of_query.distinct:
            name = alike.setdefault(tuple(map(judged.get, answer)), f"{at} {len(alike)}")
            rankings.setdefault(name, answer)
            grades[name] = judged
            names[at].append(name)
    figures = measure(grades, rankings, list(rankings), [metric])[metric]
    import numpy as np

    values = np.full((points, len(answers)), np.nan)
    for at, of_query in enumerate(answers):
        own = np.array([*(figures[name] or 0.0 for name in names[at]), np.nan])
        values[:, at] = own[[-1 if number is None else number for number in of_query.numbers]]
    return values


def folds(queries: int, count: int, seed: int) -> list[list[int]]:
    """Deals the numbers of queries to `count` folds of equal size, give or take one."""
    order = list(range(queries))
    random.Random(seed).shuffle(order)
    return [sorted(order[at::count]) for at in range(count)]


def best(means: Sequence[float]) -> int:
    """Returns the point of the highest mean; of equal ones the first."""
    return max(range(len(means)), key=lambda at: means[at])


def honest_mean(values: Values, count: int, seed: int) -> tuple[float, list[int]]:
    """Returns the mean over queries that were held out when their point was chosen, and the point of each fold.

    NaN and no point where there are fewer than two folds: a single query cannot be held out.

    Nested cross-validation (Cawley and Talbot 2010, section 5): the choice is made anew without each outer fold. A
    point has no fitted parameters, so the mean over the inner folds is that over all queries that were not held out.
    """
    if count < 2:
        return math.nan, []
    import numpy as np

    held_out: list[float] = []
    chosen = []
    for fold in folds(values.shape[1], count, seed):
        others = np.delete(values, fold, axis=1)
        at = best(others.mean(axis=1).tolist())
        chosen.append(at)
        held_out.extend(values[at, fold].tolist())
    return float(np.mean(held_out)), chosen
