"""Measures the effectiveness of rankings. `measure` fixes order, denominators and conventions; ranx computes.

Which metrics there are is in `evaluator.metrics.metric_table`; those that ranx lacks are in
`evaluator.metrics.metric_formulas`. Bounds a metric also over the orders of documents with equal scores: search engines
return those in any order, so a difference within the bounds can be nothing but the tie rule. Documents below the depth
of a ranking are not known and not considered.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from threading import Lock

from pydantic import FiniteFloat

from evaluator.errors import EvaluationError
from evaluator.metrics.metric_formulas import RELEVANCE_LEVEL, QueryJudgments, TiedRanking
from evaluator.metrics.metric_table import DEFAULT_METRICS, Favours, Metric, parse_metric
from services.contracts.base import Count, Wire

# numba ends the process where two threads compute at once.
_COMPUTING = Lock()

Grades = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]
PerQuery = Mapping[str, Mapping[str, float | None]]  # metric → query → value, None where a query has none
Bounds = tuple[float, float, float]  # worst, expected, best
BoundsPerQuery = Mapping[str, Mapping[str, Bounds | None]]  # metric → query → bounds


def measure(
    judgments: Grades, rankings: Rankings, queries: Sequence[str], metrics: Sequence[str] = DEFAULT_METRICS
) -> PerQuery:
    """Computes the metrics, by name, for every one of `queries`, in their order.

    A query without a ranking counts as one with an empty ranking. `rankings` are best first; queries in them that are
    not asked for are ignored (the caller counts them). Relevant is a grade of at least 1; negative grades count as
    unjudged. Raises ValueError for an unknown metric and for a document that stands twice in a ranking, EvaluationError
    for a grade that is too high for a metric.
    """
    for query, ranking in rankings.items():
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"query {query}: a document stands twice in its ranking")
    wanted = [parse_metric(name) for name in metrics]
    judged = judgments_by_query(judgments, queries)
    _expect_gains(judged, wanted)
    theirs = [metric for metric in wanted if metric.family.ranx is not None]
    # ranx fails on a list of no queries.
    figures = (
        _by_ranx(judged, rankings, queries, theirs) if theirs and queries else {metric.name: {} for metric in theirs}
    )
    for metric in wanted:
        if metric.family.ranx is None:
            figures[metric.name] = {
                query: metric.family.formula(
                    judged[query], [(name,) for name in rankings.get(query, ())], metric.number
                )
                for query in queries
            }
    return {metric.name: figures[metric.name] for metric in wanted}


def _expect_gains(judged: Mapping[str, QueryJudgments], metrics: Sequence[Metric]) -> None:
    highest = max((grade for query in judged.values() for grade in query.grades.values()), default=0)
    for metric in metrics:
        most = metric.family.most_grade
        if most is not None and highest > most:
            raise EvaluationError(
                f"{metric.name}: grades must be at most {most}, and one of the judgments is {highest}"
            )


def judgments_by_query(judgments: Grades, queries: Sequence[str]) -> dict[str, QueryJudgments]:
    """Returns the judgments of each query without the negative ones."""
    kept = {query: {name: grade for name, grade in grades.items() if grade >= 0} for query, grades in judgments.items()}
    anywhere = frozenset(name for grades in kept.values() for name in grades)
    return {query: QueryJudgments(kept.get(query, {}), anywhere) for query in queries}


def within_depth(figures: PerQuery, depth: int) -> PerQuery:
    """Returns the figures of rankings that were cut at `depth`: None for metrics that look deeper."""
    return {
        metric: values if (parse_metric(metric).cutoff or depth) <= depth else dict.fromkeys(values)
        for metric, values in figures.items()
    }


def means(figures: PerQuery) -> dict[str, float | None]:
    """Returns the arithmetic mean of each metric over the queries that have a value, unrounded; None without any."""
    counted = {metric: [value for value in values.values() if value is not None] for metric, values in figures.items()}
    return {metric: math.fsum(values) / len(values) if values else None for metric, values in counted.items()}


def _by_ranx(
    judged: Mapping[str, QueryJudgments], rankings: Rankings, queries: Sequence[str], metrics: Sequence[Metric]
) -> dict[str, Mapping[str, float | None]]:
    # Before the import: numba reads it once, and compiling anew costs 12 s.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).resolve().parents[2] / ".cache" / "numba"))
    with _COMPUTING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's uint64 to int64 in ranx's own loops
        # Inside the function: importing ranx takes 6 s, and most commands never need it.
        import numpy as np
        from numba.typed import List
        from ranx import evaluate  # type: ignore[import-untyped]  # ships no types

        # ranx's own dictionaries hash ids into floats, compile once per id length and crash on an empty ranking.
        # Its metrics take [number, score] rows, so each query's documents are numbered here, without collisions.
        qrels, runs = [], []
        for query in queries:
            numbers: dict[str, int] = {}
            grades = judged[query].grades
            best = sorted((name for name in grades if grades[name] >= RELEVANCE_LEVEL), key=lambda name: -grades[name])
            qrels.append([(numbers.setdefault(name, len(numbers)), grades[name]) for name in best])
            ranking = rankings.get(query, ())
            runs.append(
                [(numbers.setdefault(name, len(numbers)), len(ranking) - at) for at, name in enumerate(ranking)]
            )
        names = {metric.name: str(metric.family.ranx).format(metric.number) for metric in metrics}
        columns = evaluate(
            List([np.array(rows, dtype=np.float64).reshape(-1, 2) for rows in qrels]),
            List([np.array(rows, dtype=np.float64).reshape(-1, 2) for rows in runs]),
            # Twice, because ranx 0.3.21 raises KeyError on a lone metric with a cutoff and return_mean=False.
            [*names.values()] * (2 if len(names) == 1 else 1),
            return_mean=False,
        )
    return {
        metric: {query: float(value) for query, value in zip(queries, columns[name], strict=True)}
        for metric, name in names.items()
    }


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
