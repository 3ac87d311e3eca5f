"""Bounds a metric over the orders of documents with equal scores: the worst, the expected and the best figure.

A search engine may return tied documents in any order, so a difference within these bounds can be nothing but the tie
rule. Documents below the depth of a ranking are not known and not considered. Pure; the scores come from the answers.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby

from pydantic import FiniteFloat

from evaluator.metrics.metric_formulas import TiedRanking
from evaluator.metrics.metric_table import Favours, parse_metric
from evaluator.metrics.quality import Grades, PerQuery, judgments_by_query, measure
from services.contracts.base import Count, Wire

Bounds = tuple[float, float, float]  # worst, expected, best
BoundsPerQuery = Mapping[str, Mapping[str, Bounds | None]]  # metric → query → bounds


class TieInterval(Wire):
    """Means over the queries, each of whose tied documents are in the worst, in random, in the best order.

    For `hole@k` and `hole_beir@k` the best is the lowest. `queries`: those whose figure depends on the order.
    """

    worst: FiniteFloat
    expected: FiniteFloat
    best: FiniteFloat
    queries: Count


def tied_groups(hits: Sequence[tuple[str, float]]) -> TiedRanking:
    """Cuts a ranking (ids and scores, best first) into runs of equal scores."""
    return tuple(tuple(name for name, _ in group) for _, group in groupby(hits, key=lambda hit: hit[1]))


def bounds_of_ties(judgments: Grades, rankings: Mapping[str, TiedRanking], figures: PerQuery) -> BoundsPerQuery:
    """Returns the bounds of every metric and query of `figures`; None where a query has no value.

    `figures`: of the rankings as they stand, which are also the bounds where no documents tie. Worst and best are
    measured on the rankings with each group in the worst and best order; the expectation over all orders is the
    metric's closed form.
    """
    queries = {query: None for values in figures.values() for query in values}
    tied = [query for query in queries if any(len(group) > 1 for group in rankings.get(query, ()))]
    bounds: dict[str, dict[str, Bounds | None]] = {
        name: {query: None if value is None else (value, value, value) for query, value in values.items()}
        for name, values in figures.items()
    }
    judged = judgments_by_query(judgments, tied)
    by_favour: dict[Favours, list[str]] = {}
    for name in figures:
        by_favour.setdefault(parse_metric(name).family.favours, []).append(name)
    for favours, names in by_favour.items():

        def ordered(query: str, sign: int, favours: Favours = favours) -> list[str]:
            return [
                name
                for group in rankings[query]
                for name in sorted(group, key=lambda document: sign * favours(judged[query], document))
            ]

        worst, best = (
            measure(judgments, {query: ordered(query, sign) for query in tied}, tied, names) for sign in (1, -1)
        )
        for name in names:
            metric = parse_metric(name)
            for query in tied:
                if bounds[name][query] is not None:
                    expected = metric.family.formula(judged[query], rankings[query], metric.number)
                    bounds[name][query] = _bounds(worst[name][query], expected, best[name][query])
    return bounds


def mean_bounds(bounds: Mapping[str, Bounds | None]) -> TieInterval | None:
    """Returns the means of one metric's bounds over the queries that have a value; None without any."""
    known = [of_query for of_query in bounds.values() if of_query is not None]
    if not known:
        return None
    worst, expected, best = (math.fsum(column) / len(known) for column in zip(*known, strict=True))
    return TieInterval(worst=worst, expected=expected, best=best, queries=sum(low != high for low, _, high in known))


def _bounds(worst: float | None, expected: float | None, best: float | None) -> Bounds | None:
    if worst is None or expected is None or best is None:
        return None
    # The closed form may leave the bounds by a rounding error.
    return worst, min(max(expected, min(worst, best)), max(worst, best)), best
