"""Finds which pipeline has the best nDCG@10 under a bound of p99 at a rate, in a table and a sentence. Pure.

    sentence := pipeline [close] " has the highest nDCG@10 with " bound ": " ndcg ", p99 " ms " ms." [reduced]
              | "No pipeline keeps " bound "."
              | "This run cannot tell the best pipeline with " bound ": " unknown { ", " unknown } " might keep it."
    close    := ", not told apart from " pipelines ","
    reduced  := " Of its answers " share " were degraded."
    unknown  := pipeline " (" reason ")"
    bound    := "p99 <= " ms " ms at " rate "/s"

nDCG@10 is that of the timed answers, late and lost ones as 0. A pipeline keeps the bound where the 95 % interval of its
p99 lies at or below it, exceeds it where the interval lies above, and is otherwise open. Listed as close to
the best are those that keep the bound too and whose difference of nDCG@10 has an interval that contains 0.

Nothing bounds the share of lost or degraded answers: nDCG@10 and p99 count lost requests, and nDCG@10 is that of the
degraded answers. A pipeline that re-ranks less under load may so be the best; above 1 %, the sentence states it.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations, takewhile
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.points.figures import LoadPercentiles, query_means
from evaluator.load.points.point_report import LoadPointReport
from evaluator.load.sending.samples import LoadSample
from evaluator.metrics.paired_differences import bca_interval, differences, mean
from evaluator.metrics.quality import Grades
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99, Interval
from services.contracts.base import Count, Wire

# As --find-capacity bounds the share of requests lost or degraded (evaluator/load/capacity.py).
MOST_DEGRADED = 0.01
BoundOutcome = Literal["kept", "exceeded", "cannot tell"]
BestOutcome = Literal["best", "none", "cannot tell"]
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
    means = {name: query_means(judgments, requests) for name, requests in samples.items()}
    for first, second in combinations(means, 2):
        queries = sorted(means[first].keys() & means[second].keys())
        if queries:
            apart = differences(*([means[name][query] for query in queries] for name in (first, second)))
            yield QualityDifference(
                traffic=traffic,
                first=first,
                second=second,
                difference=mean(apart),
                interval=bca_interval(apart, seed, RESAMPLES) if len(apart) > 1 else None,
                queries=len(apart),
            )


def told_apart(compared: Sequence[QualityDifference], traffic: str) -> frozenset[frozenset[str]]:
    """Returns the pairs of pipelines whose interval excludes 0."""
    return frozenset(
        frozenset({pair.first, pair.second})
        for pair in compared
        if pair.traffic == traffic and pair.interval is not None and not pair.interval[0] <= 0 <= pair.interval[1]
    )


class PipelineUnderBound(Wire):
    """A pipeline at the rate."""

    pipeline: str
    ndcg_at_10: FiniteFloat
    p99_ms: FiniteFloat | None  # null: too few requests, or the times are not valid
    p99_interval: Interval | None
    outcome: BoundOutcome
    reason: str | None = None  # of `cannot tell`
    degraded_share: FiniteFloat = 0.0  # of the answers in time


class BestUnder(Wire):
    """The pipelines at one rate, best first, and which of them is the best one that keeps the bound."""

    rate: FiniteFloat
    bound_ms: FiniteFloat  # of p99
    pipelines: tuple[PipelineUnderBound, ...]
    outcome: BestOutcome
    best: str | None  # null unless `best`
    not_told_apart: tuple[str, ...] = ()  # others that keep the bound, and may be as good as the best or better
    sentence: str


def under_bound(
    pipeline: str, ndcg_at_10: float | None, latency: LoadPercentiles, degraded_share: float, bound_ms: float
) -> PipelineUnderBound:
    """Judges a pipeline by the figures of its requests."""
    interval = latency.intervals.get("p99") if latency.p99.held_ms is not None else None
    outcome = _outcome(interval, bound_ms)
    return PipelineUnderBound(
        pipeline=pipeline,
        ndcg_at_10=ndcg_at_10 or 0.0,
        p99_ms=latency.p99.held_ms,
        p99_interval=interval,
        outcome=outcome,
        reason=_missing(latency, interval) if outcome == "cannot tell" else None,
        degraded_share=degraded_share,
    )


def best_under(
    pipelines: Sequence[PipelineUnderBound], rate: float, bound_ms: float, apart: Collection[frozenset[str]]
) -> BestUnder:
    """Names the best pipeline. Of equal nDCG@10, the one with the lower p99 is better.

    `apart`: the pairs of pipelines whose nDCG@10 differs beyond chance.
    """
    ordered = sorted(pipelines, key=lambda judged: (-judged.ndcg_at_10, judged.p99_ms or math.inf, judged.pipeline))
    # The first one that does not exceed the bound decides: those after it have a lower figure.
    first = next((judged for judged in ordered if judged.outcome != "exceeded"), None)
    outcome: BestOutcome = "none" if first is None else "best" if first.outcome == "kept" else "cannot tell"
    best = first.pipeline if first is not None and outcome == "best" else None
    kept = [judged.pipeline for judged in ordered if judged.outcome == "kept" and judged.pipeline != best]
    named = BestUnder(
        rate=rate,
        bound_ms=bound_ms,
        pipelines=tuple(ordered),
        outcome=outcome,
        best=best,
        not_told_apart=() if best is None else tuple(name for name in kept if frozenset({best, name}) not in apart),
        sentence="",
    )
    return named.model_copy(update={"sentence": _sentence(named)})


def best_under_rows(best: BestUnder) -> list[list[str]]:
    """Returns a header and one row per pipeline."""
    rows = [["pipeline", "nDCG@10", "p99 ms", "95 % interval", "degraded", f"p99 <= {best.bound_ms:g} ms"]]
    for judged in best.pipelines:
        interval = "–" if judged.p99_interval is None else "{:.1f} to {:.1f}".format(*judged.p99_interval)
        p99 = "–" if judged.p99_ms is None else f"{judged.p99_ms:.1f}"
        figures = [f"{judged.ndcg_at_10:.4f}", p99, interval, f"{judged.degraded_share:.1%}"]
        rows.append([judged.pipeline, *figures, judged.outcome])
    return rows


def _outcome(interval: Interval | None, bound_ms: float) -> BoundOutcome:
    if interval is None:
        return "cannot tell"
    if interval[1] <= bound_ms:
        return "kept"
    return "exceeded" if interval[0] > bound_ms else "cannot tell"


def _missing(latency: LoadPercentiles, interval: Interval | None) -> str:
    if interval is not None:
        return "the interval of its p99 contains the bound"
    if latency.n < MIN_SAMPLES_FOR_P99:
        return f"{latency.n} of the {MIN_SAMPLES_FOR_P99} requests that a p99 needs"
    return "its times are not valid"


def _sentence(named: BestUnder) -> str:
    bound = f"p99 <= {named.bound_ms:g} ms at {named.rate:g}/s"
    match named.outcome:
        case "best":
            best = next(judged for judged in named.pipelines if judged.pipeline == named.best)
            figures = f"{best.ndcg_at_10:.4f}, p99 {best.p99_ms:.1f} ms"
            close = f", not told apart from {', '.join(named.not_told_apart)}," if named.not_told_apart else ""
            reduced = (
                f" Of its answers {best.degraded_share:.1%} were degraded."
                if best.degraded_share > MOST_DEGRADED
                else ""
            )
            return f"{best.pipeline}{close} has the highest nDCG@10 with {bound}: {figures}.{reduced}"
        case "none":
            return f"No pipeline keeps {bound}."
        case "cannot tell":
            # Those after the first one that keeps the bound cannot change the answer.
            better = takewhile(lambda judged: judged.outcome != "kept", named.pipelines)
            unknown = [f"{judged.pipeline} ({judged.reason})" for judged in better if judged.outcome == "cannot tell"]
            return f"This run cannot tell the best pipeline with {bound}: {', '.join(unknown)} might keep it."


def best_at(
    points: Sequence[LoadPointReport], differences: Sequence[QualityDifference], rate: float, bound_ms: float
) -> BestUnder:
    """Names the best pipeline of a rate's points under a bound of p99. `differences`: of their nDCG@10."""
    judged = [
        under_bound(point.pipeline, point.quality.ndcg_at_10, point.latency_ms, point.quality.degraded_share, bound_ms)
        for point in points
        if point.traffic == f"{rate:g}"  # not what only this pipeline got, as a multiple of its capacity
    ]
    return best_under(judged, rate, bound_ms, told_apart(differences, f"{rate:g}"))
