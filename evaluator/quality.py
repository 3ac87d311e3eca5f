"""Measures the effectiveness of rankings. `measure` fixes order, denominators and conventions; ranx computes."""

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

Grades = Mapping[str, Mapping[str, int]]
PerQuery = Mapping[str, Mapping[str, float]]  # metric → query → value

# Our name → ranx's. nDCG has linear gain and log2(rank + 1); MAP and Recall divide by all positives, P by k.
RANX_NAMES = {
    "nDCG@10": "ndcg@10",
    "MRR@10": "mrr@10",
    "MAP": "map",
    "Recall@100": "recall@100",
    "P@10": "precision@10",
}


def capped_recall(grades: Mapping[str, int], ranking: Sequence[str]) -> float:
    """Returns the share of min(100, positives) that stands in the first 100 (BEIR, arXiv 2104.08663, capped recall)."""
    positives = {name for name, grade in grades.items() if grade > 0}
    return len(positives.intersection(ranking[:100])) / min(100, len(positives)) if positives else 0.0


def judged_share(grades: Mapping[str, int], ranking: Sequence[str]) -> float:
    """Returns the share of the first 10 that was judged, relevant or not."""
    shown = ranking[:10]
    return sum(name in grades for name in shown) / len(shown) if shown else 0.0


# What ranx does not have: the value of one query, from its grades and its ranking (best first).
OUR_METRICS: dict[str, Callable[[Mapping[str, int], Sequence[str]], float]] = {
    "R_cap@100": capped_recall,
    "judged@10": judged_share,
}


def cutoff(metric: str) -> int:
    """Returns the depth that a metric needs (1 for MAP, which is as deep as the ranking)."""
    return int(metric.partition("@")[2] or 1)


def measure(judgments: Grades, rankings: Mapping[str, Sequence[str]], queries: Sequence[str]) -> PerQuery:
    """Computes every metric for every one of `queries`, in their order; a query without a ranking scores 0.

    `rankings` are best first; queries in them that are not asked for are ignored (the caller counts them). Relevant is
    a grade of at least 1.
    """
    for query, ranking in rankings.items():
        if len(set(ranking)) < len(ranking):
            raise ValueError(f"query {query}: a document stands twice in its ranking")
    ours = {
        metric: {query: value(judgments.get(query, {}), rankings.get(query, ())) for query in queries}
        for metric, value in OUR_METRICS.items()
    }
    return {**_by_ranx(judgments, rankings, queries), **ours}


def means(figures: PerQuery) -> dict[str, float]:
    """Returns the arithmetic mean of each metric over its queries, unrounded."""
    return {metric: math.fsum(values.values()) / len(values) for metric, values in figures.items()}


def _by_ranx(judgments: Grades, rankings: Mapping[str, Sequence[str]], queries: Sequence[str]) -> PerQuery:
    # Before the import: numba reads it once, and compiling anew costs 12 s.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).resolve().parent.parent / ".cache" / "numba"))
    with warnings.catch_warnings():
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
            grades = {name: grade for name, grade in judgments.get(query, {}).items() if grade > 0}
            best = sorted(grades, key=lambda name: -grades[name])
            qrels.append([(numbers.setdefault(name, len(numbers)), grades[name]) for name in best])
            ranking = rankings.get(query, ())
            runs.append(
                [(numbers.setdefault(name, len(numbers)), len(ranking) - at) for at, name in enumerate(ranking)]
            )
        columns = evaluate(
            List([np.array(rows, dtype=np.float64).reshape(-1, 2) for rows in qrels]),
            List([np.array(rows, dtype=np.float64).reshape(-1, 2) for rows in runs]),
            list(RANX_NAMES.values()),
            return_mean=False,
        )
    return {
        metric: {query: float(value) for query, value in zip(queries, columns[name], strict=True)}
        for metric, name in RANX_NAMES.items()
    }
