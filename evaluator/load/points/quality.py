"""Measures nDCG@10 of the answers that were timed, over requests, and compares pipelines at one rate by query. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

from pydantic import FiniteFloat

from evaluator.comparison.paired_tests import bca_interval, differences, mean
from evaluator.load.sending.samples import LoadSample
from evaluator.metrics.quality import Grades, measure
from evaluator.runs.order_statistics import Interval
from evaluator.steps.reranked_candidates import candidates_scored, mean_scored, share_scored
from services.contracts.base import Count, Wire

METRIC = "nDCG@10"
RESAMPLES = 1_999


class AnswerQuality(Wire):
    """Quality of the requests of a point, each as it was answered."""

    ndcg_at_10: FiniteFloat | None  # late, failed and dropped requests count as 0; null without requests
    degraded_share: FiniteFloat  # of the answers in time
    # Candidates re-ranked an answer in time; null: nothing re-ranks, or nothing came in time.
    reranked: FiniteFloat | None  # mean number; null too where an answer shows fewer hits than may be re-ranked
    reranked_share: FiniteFloat | None = None  # mean share; degraded answers report it, all others count as 1


def answer_quality(
    judgments: Grades, samples: Sequence[LoadSample], reranks: Mapping[str, int], asked: int
) -> AnswerQuality:
    """Returns the quality. `reranks`: candidates that the pipeline re-ranks, by stage; `asked`: hits a request."""
    in_time = [sample for sample in samples if sample.outcome == "answered"]
    reranked = in_time if reranks else []
    return AnswerQuality(
        ndcg_at_10=mean_ndcg(judgments, samples),
        degraded_share=sum(bool(sample.degraded) for sample in in_time) / max(1, len(in_time)),
        reranked=mean_scored([candidates_scored(one.degraded, one.hits, reranks, asked) for one in reranked]),
        reranked_share=math.fsum(share_scored(one.degraded, reranks) for one in reranked) / len(reranked)
        if reranked
        else None,
    )


def mean_ndcg(judgments: Grades, samples: Sequence[LoadSample]) -> float | None:
    """Returns the mean nDCG@10 over requests; None without any."""
    return math.fsum(request_values(judgments, samples)) / len(samples) if samples else None


def query_means(judgments: Grades, samples: Sequence[LoadSample]) -> dict[str, float]:
    """Returns the mean nDCG@10 of the requests of each query."""
    values: dict[str, list[float]] = {}
    for sample, value in zip(samples, request_values(judgments, samples) if samples else [], strict=True):
        values.setdefault(sample.query, []).append(value)
    return {query: math.fsum(found) / len(found) for query, found in values.items()}


def request_values(judgments: Grades, samples: Sequence[LoadSample]) -> list[float]:
    """Returns nDCG@10 of each request. Equal rankings of one query are measured once."""
    shown = [(sample.query, sample.ids if sample.outcome == "answered" else ()) for sample in samples]
    # One name for each ranking of a query, because `measure` takes one ranking a query.
    names = {key: str(number) for number, key in enumerate(dict.fromkeys(shown))}
    values = measure(
        {name: judgments[query] for (query, _), name in names.items()},
        {name: ranking for (_, ranking), name in names.items()},
        list(names.values()),
        (METRIC,),
    )[METRIC]
    return [values[names[key]] or 0.0 for key in shown]


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
