"""Says how the grade of a document enters the difference in nDCG@10 of pipelines to the first of them. Pure.

DCG is linear in the grades (Järvelin and Kekäläinen 2002): a document adds its grade, times its discount in the one
ranking less that in the other, over the ideal DCG of its query.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.comparison.paired_tests import ROUNDING
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL
from evaluator.metrics.quality import Rankings

DEPTH = 10
DISCOUNTS = tuple(1 / math.log2(rank + 1) for rank in range(1, DEPTH + 1))
STRATA = 3  # of documents: returned by the first pipeline alone, by others alone, by both


@dataclass(frozen=True, slots=True)
class ComparedPool:
    """Pipelines of which each is compared with the first. `queries` are those of the means, in their order.

    `weights[n][query][document]`: discount in pipeline n + 1, less that in the first. `strata[query][document]`: 0 to
    STRATA - 1.
    """

    queries: tuple[str, ...]
    weights: tuple[Mapping[str, Mapping[str, float]], ...]
    strata: Mapping[str, Mapping[str, int]]

    def differences(self, grades: Mapping[str, Mapping[str, int]]) -> list[list[float]]:
        """Returns nDCG@10 less that of the first, by comparison and query."""
        found = []
        for weights in self.weights:
            of_one = []
            for query in self.queries:
                judged = grades.get(query, {})
                ideal = ideal_dcg(best_gains(judged))
                value = weighted_gain(weights[query], judged) / ideal if ideal else 0.0
                of_one.append(0.0 if abs(value) < ROUNDING else value)
            found.append(of_one)
        return found


def compared_pool(rankings: Sequence[Rankings], queries: Sequence[str]) -> ComparedPool:
    """Returns the pool of at least two rankings, the first one compared with."""
    discounts = [
        {query: dict(zip(ranking.get(query, ()), DISCOUNTS, strict=False)) for query in queries} for ranking in rankings
    ]
    strata: dict[str, dict[str, int]] = {}
    for query in queries:
        first = set(rankings[0].get(query, ()))
        others = {document for ranking in rankings[1:] for document in ranking.get(query, ())}
        strata[query] = {one: 2 if one in first & others else int(one in others) for one in first | others}
    return ComparedPool(
        tuple(queries),
        tuple({query: _less(other[query], discounts[0][query]) for query in queries} for other in discounts[1:]),
        strata,
    )


def best_gains(grades: Mapping[str, int]) -> list[int]:
    """Returns the grades of the ideal ranking down to DEPTH, highest first."""
    return sorted((grade for grade in grades.values() if grade >= RELEVANCE_LEVEL), reverse=True)[:DEPTH]


def ideal_dcg(gains: Sequence[int]) -> float:
    """Returns the DCG of gains in descending order."""
    return math.fsum(gain * discount for gain, discount in zip(gains, DISCOUNTS, strict=False))


def weighted_gain(weights: Mapping[str, float], grades: Mapping[str, int]) -> float:
    """Returns the difference in DCG of one query."""
    return math.fsum(weight * grades.get(document, 0) for document, weight in weights.items())


def _less(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    return {name: one.get(name, 0.0) - other.get(name, 0.0) for name in dict.fromkeys((*other, *one))}
