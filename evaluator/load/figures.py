"""Computes the figures of load: percentiles with their intervals, rates, and what became of the requests. Pure."""

from collections import Counter
from collections.abc import Sequence

from pydantic import FiniteFloat

from evaluator.latency import MIN_SAMPLES_FOR_P99
from evaluator.load.histograms import histogram_of, percentile_ms
from evaluator.load.samples import LoadSample
from services.contracts.base import Count, Wire

# The same rule a nine further (about 7,000 samples).
MIN_SAMPLES_FOR_P99_9 = 7_000
CONFIDENCE = 0.95

Interval = tuple[FiniteFloat, FiniteFloat]


class LoadPercentiles(Wire):
    """Percentiles in milliseconds, from an HDR histogram of three digits."""

    p50: FiniteFloat | None
    p90: FiniteFloat | None
    p95: FiniteFloat | None
    p99: FiniteFloat | None  # null below 662 samples, and where the timing is not valid
    p99_9: FiniteFloat | None  # null below 7,000 samples, and where the timing is not valid
    max: FiniteFloat | None
    n: Count
    # By name of the percentile: 95 %, from order statistics (binomial). Null where no sample is far enough out.
    intervals: dict[str, Interval | None]

    def without_tail(self) -> "LoadPercentiles":
        """Returns the figures without p99 and p99.9."""
        kept = {name: interval for name, interval in self.intervals.items() if name not in ("p99", "p99_9")}
        return self.model_copy(update={"p99": None, "p99_9": None, "intervals": kept})


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
    histogram, ordered = histogram_of(values_ms), sorted(values_ms)
    percents = {"p50": 50.0, "p90": 90.0, "p95": 95.0}
    if n >= MIN_SAMPLES_FOR_P99:
        percents["p99"] = 99.0
    if n >= MIN_SAMPLES_FOR_P99_9:
        percents["p99_9"] = 99.9
    # The histogram rounds up: no percentile is longer than the longest time.
    found = {name: min(percentile_ms(histogram, percent), ordered[-1]) for name, percent in percents.items()}
    return LoadPercentiles(
        p50=found["p50"],
        p90=found["p90"],
        p95=found["p95"],
        p99=found.get("p99"),
        p99_9=found.get("p99_9"),
        max=ordered[-1],
        n=n,
        intervals={name: percentile_interval(ordered, percent / 100) for name, percent in percents.items()},
    )


def percentile_interval(ordered: Sequence[float], share: float) -> Interval | None:
    """Returns two of the ascending values between which the percentile lies with 95 % confidence, or None.

    The number of values below the percentile is binomial; the values are taken as independent (Conover 1999, 3.2).
    """
    from scipy.stats import binom  # type: ignore[import-untyped]  # ships no types

    n = len(ordered)
    low = int(binom.ppf((1 - CONFIDENCE) / 2, n, share))
    high = int(binom.ppf((1 + CONFIDENCE) / 2, n, share)) + 1
    return (ordered[low - 1], ordered[high - 1]) if low >= 1 and high <= n else None


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
