"""Compares nDCG@10 of the pipelines at one rate, paired by query, with intervals. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from pydantic import FiniteFloat

from evaluator.comparison.paired_tests import bca_interval, differences, mean
from evaluator.load.intervals import Interval
from evaluator.load.quality import query_means
from evaluator.load.samples import LoadSample
from evaluator.metrics.quality import Grades
from services.contracts.base import Count, Wire

RESAMPLES = 1_999


class QualityDifference(Wire):
    """How much higher nDCG@10 of `second` is than that of `first`, in one kind of traffic."""

    traffic: str
    first: str  # a pipeline
    second: str
    difference: FiniteFloat  # mean over the queries of both, each with the mean of its requests
    interval: Interval | None  # 95 %, BCa bootstrap over queries; null for a single query
    queries: Count


def quality_differences(
    traffic: str, samples: Mapping[str, Sequence[LoadSample]], judgments: Grades, seed: int
) -> Iterator[QualityDifference]:
    """Yields the difference of every two pipelines. `samples`: measured requests by pipeline."""
    means = {name: query_means(judgments, of_one) for name, of_one in samples.items()}
    for first, second in combinations(means, 2):
        queries = sorted(means[first].keys() & means[second].keys())
        if queries:
            found = differences(*([means[name][query] for query in queries] for name in (first, second)))
            yield QualityDifference(
                traffic=traffic,
                first=first,
                second=second,
                difference=mean(found),
                interval=bca_interval(found, seed, RESAMPLES) if len(found) > 1 else None,
                queries=len(found),
            )


def told_apart(found: Sequence[QualityDifference], traffic: str) -> frozenset[frozenset[str]]:
    """Returns the pairs of pipelines whose interval excludes 0."""
    return frozenset(
        frozenset({one.first, one.second})
        for one in found
        if one.traffic == traffic and one.interval is not None and not one.interval[0] <= 0 <= one.interval[1]
    )
