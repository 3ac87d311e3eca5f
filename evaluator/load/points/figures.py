"""Computes figures of the requests of a load: percentiles with intervals, HDR histograms, counts, nDCG@10.

Pure but for `.hlog` files, which it writes and reads. Histograms are merged, never averaged.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped]  # ships no types
from hdrh.log import HistogramLogReader, HistogramLogWriter  # type: ignore[import-untyped]
from pydantic import ConfigDict, FiniteFloat, model_validator

from evaluator.load.sending.samples import LoadSample
from evaluator.metrics.quality import Grades, measure
from evaluator.runs.latency import (
    MIN_SAMPLES_FOR_P99,
    Interval,
    Timed,
    bounded,
    least_percentiles,
    percentile,
    percentile_interval,
)
from services.contracts.base import Count, Wire
from services.contracts.query import Degradation
from services.files.disk_writes import whole_file

# The same rule a nine further (about 7,000 samples).
MIN_SAMPLES_FOR_P99_9 = 7_000
# The range and the digits of a histogram.
LEAST_US = 1
MOST_US = 3_600_000_000
DIGITS = 3
# The span of one line of a .hlog file. It is short enough to see a stall; each line costs a few hundred bytes.
INTERVAL_S = 1.0
METRIC = "nDCG@10"

_BY_NAME = ("intervals", "least")


class LoadPercentiles(Wire):
    """Percentiles in milliseconds, by nearest rank: observed values (evaluator/runs/latency.py)."""

    model_config = ConfigDict(revalidate_instances="always")
    _bounded = model_validator(mode="after")(bounded)

    p50: Timed
    p90: Timed
    p95: Timed
    p99: Timed  # null below 662 samples, and of a closed loop
    p99_9: Timed  # null below 7,000 samples, and of a closed loop
    max: Timed
    n: Count
    # By name of the percentile: 95 %, from order statistics (binomial). Null where no sample is far enough out.
    intervals: dict[str, Interval | None]
    disturbed: FiniteFloat = 0.0  # share of the requests during which others took CPU
    least: dict[str, FiniteFloat] = {}  # by figure, where requests were disturbed (`least_percentiles`)

    def without_tail(self) -> "LoadPercentiles":
        """Returns the figures without p99 and p99.9."""
        tail = ("p99", "p99_9")
        kept = {name: {key: one for key, one in getattr(self, name).items() if key not in tail} for name in _BY_NAME}
        return self.model_copy(update={**dict.fromkeys(tail, Timed(None, None)), **kept})


class RequestCounts(Wire):
    """Outcomes of the requests of a point. Every request is in `answered`, `late`, `failed` or `dropped`."""

    requests: Count
    answered: Count  # in time, degraded ones too
    late: Count  # answered after the deadline
    failed: Count  # sent, without a usable answer
    dropped: Count  # not sent: too many were in flight
    errors_by_kind: dict[str, Count]  # of `failed`
    degraded: Count  # of `answered`
    degraded_by_stage: dict[str, Count]  # `stage: reason`
    no_hits: Count  # of `answered`


def load_percentiles(values_ms: Sequence[float], disturbed: float = 0.0) -> LoadPercentiles:
    """Returns the percentiles of these values. `disturbed`: the share of them during which others took CPU."""
    n = len(values_ms)
    if not n:
        return LoadPercentiles(p50=None, p90=None, p95=None, p99=None, p99_9=None, max=None, n=0, intervals={})
    ordered = sorted(values_ms)
    shares = {"p50": 0.5, "p90": 0.9, "p95": 0.95}
    if n >= MIN_SAMPLES_FOR_P99:
        shares["p99"] = 0.99
    if n >= MIN_SAMPLES_FOR_P99_9:
        shares["p99_9"] = 0.999
    # Not from the histogram: hdrh rounds the rank, so that more than 1 in 100 could exceed p99.
    values = {name: percentile(ordered, share) for name, share in shares.items()}
    return LoadPercentiles(
        p50=values["p50"],
        p90=values["p90"],
        p95=values["p95"],
        p99=values.get("p99"),
        p99_9=values.get("p99_9"),
        max=ordered[-1],
        n=n,
        intervals={name: percentile_interval(ordered, share) for name, share in shares.items()},
        disturbed=disturbed,
        least=least_percentiles(ordered, shares | {"max": 1.0}, disturbed),
    )


def request_counts(samples: Sequence[LoadSample]) -> RequestCounts:
    """Counts requests by outcome."""
    outcomes = Counter(sample.outcome for sample in samples)
    answered = [sample for sample in samples if sample.outcome == "answered"]
    degradations = Counter(f"{item.stage}: {item.reason}" for sample in answered for item in sample.degraded)
    return RequestCounts(
        requests=len(samples),
        answered=outcomes["answered"],
        late=outcomes["late"],
        failed=outcomes["failed"],
        dropped=outcomes["dropped"],
        errors_by_kind=dict(Counter(str(sample.error) for sample in samples if sample.outcome == "failed")),
        degraded=sum(bool(sample.degraded) for sample in answered),
        degraded_by_stage=dict(degradations),
        no_hits=sum(not sample.ranking for sample in answered),
    )


def new_histogram() -> HdrHistogram:
    """Returns an empty histogram."""
    return HdrHistogram(LEAST_US, MOST_US, DIGITS)


def histogram_of(values_ms: Iterable[float]) -> HdrHistogram:
    """Returns a histogram of these values. Values outside its range count as its bounds."""
    histogram = new_histogram()
    for value_ms in values_ms:
        histogram.record_value(min(MOST_US, max(LEAST_US, round(value_ms * 1000))))
    return histogram


def percentiles_ms(histogram: HdrHistogram, percents: Sequence[float]) -> list[float]:
    """Returns the greatest values, to three digits, that equal those of these percentiles; reads the counts once."""
    values_us = histogram.get_percentile_to_value_dict(percents)
    return [float(values_us[percent]) / 1000 for percent in percents]


def write_hlog(path: Path, began: datetime, timed: Sequence[tuple[float, float]]) -> None:
    """Writes a histogram a second. `timed`: pairs of seconds since the beginning and milliseconds."""
    with whole_file(path) as file:
        writer = HistogramLogWriter(file)
        writer.output_log_format_version()
        writer.output_comment("[Unit of values: microseconds]")
        # `output_start_time` of 0.10.8 calls a method that datetime does not have.
        file.write(f"#[StartTime: {began.timestamp():f} (seconds since epoch), {began.astimezone(UTC).isoformat()}]\n")
        writer.output_legend()
        intervals: dict[int, list[float]] = {}
        for at_s, value_ms in timed:
            intervals.setdefault(int(at_s // INTERVAL_S), []).append(value_ms)
        for number in sorted(intervals):
            start_s = number * INTERVAL_S
            # The writer takes 0 for "not given", and then a time of the histogram itself, which is 0 too.
            writer.output_interval_histogram(histogram_of(intervals[number]), start_s, start_s + INTERVAL_S)


def read_hlog(path: Path) -> HdrHistogram:
    """Returns all intervals of a file, merged."""
    merged = new_histogram()
    reader = HistogramLogReader(str(path), merged)
    try:
        while reader.add_next_interval_histogram() is not None:
            pass
    finally:
        reader.close()
    return merged


class AnswerQuality(Wire):
    """Quality of the requests of a point, each as it was answered."""

    ndcg_at_10: FiniteFloat | None  # late, failed and dropped requests count as 0; null without requests
    degraded_share: FiniteFloat  # of the answers in time
    # Candidates re-ranked an answer in time; null: nothing re-ranks, or nothing came in time.
    reranked: FiniteFloat | None  # mean number; null too where an answer shows fewer hits than may be re-ranked
    reranked_share: FiniteFloat | None = None  # mean share; degraded answers report it, all others count as 1


def answer_quality(
    judgments: Grades, samples: Sequence[LoadSample], reranks: Mapping[str, int], depth: int
) -> AnswerQuality:
    """Returns the quality. `reranks`: candidates that the pipeline re-ranks, by stage; `depth`: hits of a request."""
    in_time = [sample for sample in samples if sample.outcome == "answered"]
    reranked = in_time if reranks else []
    return AnswerQuality(
        ndcg_at_10=mean_ndcg(judgments, samples),
        degraded_share=sum(bool(sample.degraded) for sample in in_time) / max(1, len(in_time)),
        reranked=mean_scored([candidates_scored(sample.degraded, sample.hits, reranks, depth) for sample in reranked]),
        reranked_share=math.fsum(share_scored(sample.degraded, reranks) for sample in reranked) / len(reranked)
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
    return {query: math.fsum(of_query) / len(of_query) for query, of_query in values.items()}


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


def candidates_scored(degraded: Sequence[Degradation], hits: int, reranks: Mapping[str, int], depth: int) -> int | None:
    """Returns the candidates that all rerank stages scored; None where the answer does not show it.

    `hits`: of the answer, at most `depth`. `reranks`: the most candidates of a stage. A degradation names the number.
    Otherwise every candidate was scored, and the answer shows them all where it has fewer hits than `depth`, or where
    no more than its hits may be re-ranked.
    """
    flagged = {degradation.stage: degradation.done for degradation in degraded}
    total = 0
    for stage, top in reranks.items():
        if stage in flagged:
            total += flagged[stage]
        elif top <= hits or hits < depth:
            total += min(top, hits)
        else:
            return None
    return total


def share_scored(degraded: Sequence[Degradation], reranks: Mapping[str, int]) -> float:
    """Returns the share of their candidates that the rerank stages scored, as a mean over the stages."""
    shares = {
        degradation.stage: degradation.done / degradation.of if degradation.of else 1.0 for degradation in degraded
    }
    return sum(shares.get(stage, 1.0) for stage in reranks) / len(reranks)


def mean_scored(numbers: Sequence[int | None]) -> float | None:
    """Returns the mean over answers; None without one, and where one of them does not show its number."""
    known = [number for number in numbers if number is not None]
    return sum(known) / len(known) if known and len(known) == len(numbers) else None
