"""Computes the figures of load: percentiles with their intervals, rates, and what became of the requests. Pure."""

from collections import Counter
from collections.abc import Sequence

from pydantic import ConfigDict

from evaluator.load.sending.samples import LoadSample
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99, Timed, percentile
from evaluator.runs.order_statistics import Interval, percentile_interval
from services.contracts.base import Count, Wire

# The same rule a nine further (about 7,000 samples).
MIN_SAMPLES_FOR_P99_9 = 7_000


class LoadPercentiles(Wire):
    """Percentiles in milliseconds, by nearest rank: observed values (evaluator/runs/latency.py)."""

    model_config = ConfigDict(revalidate_instances="always")

    p50: Timed
    p90: Timed
    p95: Timed
    p99: Timed  # null below 662 samples, and of a closed loop
    p99_9: Timed  # null below 7,000 samples, and of a closed loop
    max: Timed
    n: Count
    # By name of the percentile: 95 %, from order statistics (binomial). Null where no sample is far enough out.
    intervals: dict[str, Interval | None]

    def without_tail(self) -> "LoadPercentiles":
        """Returns the figures without p99 and p99.9."""
        kept = {name: interval for name, interval in self.intervals.items() if name not in ("p99", "p99_9")}
        return self.model_copy(update={"p99": Timed(None, None), "p99_9": Timed(None, None), "intervals": kept})


class RequestCounts(Wire):
    """What became of the requests of a point. Every request is in `answered`, `late`, `failed` or `dropped`."""

    requests: Count
    answered: Count  # in time, degraded ones too
    late: Count  # answered after the deadline
    failed: Count  # sent, without a usable answer
    dropped: Count  # not sent: too many were in flight
    errors_by_kind: dict[str, Count]  # of `failed`
    degraded: Count  # of `answered`
    degraded_by_stage: dict[str, Count]  # `stage: reason`
    no_hits: Count  # of `answered`


def load_percentiles(values_ms: Sequence[float]) -> LoadPercentiles:
    """Returns the percentiles of these values."""
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
    found = {name: percentile(ordered, share) for name, share in shares.items()}
    return LoadPercentiles(
        p50=found["p50"],
        p90=found["p90"],
        p95=found["p95"],
        p99=found.get("p99"),
        p99_9=found.get("p99_9"),
        max=ordered[-1],
        n=n,
        intervals={name: percentile_interval(ordered, share) for name, share in shares.items()},
    )


def request_counts(samples: Sequence[LoadSample]) -> RequestCounts:
    """Counts what became of the requests."""
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
