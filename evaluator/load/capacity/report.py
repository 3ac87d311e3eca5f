"""Builds the report of a capacity, defines capacity.json, and renders both. Pure.

sentence := pipeline " carries " rate "/s with p99 <= " bound " ms in 5 of 5 verifications; " knee "."
          | pipeline " carries no rate with p99 <= " bound " ms: " reasons "."
          | "This machine cannot tell which rate " pipeline " carries with p99 <= " bound " ms: " reasons "."
knee     := "the knee is at " rate "/s" | "the knee cannot be told, because times below the capacity are not valid"
"""

from collections.abc import Iterator, Sequence

from evaluator.load.capacity.search import VERIFICATIONS, CapacityMultiple, CapacityReport, FoundCapacity
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.markdown_table import aligned
from evaluator.runs.latency import MARKED, Timed
from evaluator.runs.run_folder import StepFile

CAPACITY = "capacity.json"

# Multiples of the capacity: five rates for the knee, and four for what is answered in time beyond it.
SWEEP = (0.1, 0.45, 0.8, 1.15, 1.5)
BEYOND = (1.0, 1.5, 2.0, 4.0)
MULTIPLES = tuple(sorted({*SWEEP, *BEYOND}))


class CapacityFile(StepFile):
    """capacity.json: a report a pipeline, in the order of the experiment."""

    made_from: dict[str, str]
    capacities: tuple[CapacityReport, ...]


def multiple_rates(found: FoundCapacity) -> Iterator[tuple[float, float]]:
    """Yields multiples of the capacity and their rates, ascending; none where no capacity was found."""
    if found.rate is not None:
        for multiple in MULTIPLES:
            yield multiple, float(f"{multiple * found.rate:.3g}")


def capacity_report(
    pipeline: str, found: FoundCapacity, points: Sequence[tuple[float, LoadPointReport]]
) -> CapacityReport:
    """Builds the report. `points`: by multiple of the capacity."""
    multiples = tuple(_at_multiple(multiple, point) for multiple, point in points)
    report = CapacityReport(pipeline=pipeline, found=found, multiples=multiples, knee=knee(multiples), sentence="")
    return report.model_copy(update={"sentence": _sentence(report)})


def knee(multiples: Sequence[CapacityMultiple]) -> float | None:
    """Returns the swept rate at which goodput divided by p95 is greatest; None without valid times.

    Beyond the capacity times are expected not to be valid, because the queue grows; below it they have to be.

    This is the power of a queue: below its greatest value a higher rate costs little latency, above it much latency
    for little goodput (Kleinrock 1979, Power and deterministic rules of thumb, ICC). p95 stands for the mean latency,
    because the tail is what a bound is about, and because it exists where p99 does not.
    """
    if not all(one.timing_valid for one in multiples if one.multiple in SWEEP and one.multiple <= 1):
        return None
    powers = [(one.goodput / one.p95_ms, one.rate) for one in multiples if one.multiple in SWEEP and one.p95_ms]
    return max(powers, default=(0.0, None))[1]


def render_capacity(report: CapacityReport) -> str:
    """Renders the sentence, the measured rates in order, and the figures at multiples of the capacity."""
    parts = [report.sentence, aligned(measured_rows(report))]
    if report.multiples:
        parts.append(aligned(multiple_rows(report)))
    return "\n\n".join(parts)


def measured_rows(report: CapacityReport) -> list[tuple[str, ...]]:
    """Returns a header and every measurement of the search, in order."""
    measured: list[tuple[str, ...]] = [("rate", "seconds", "requests", "over", "lost or degraded", "p99 ms", "outcome")]
    measured += [
        (f"{one.rate:g}/s", f"{one.seconds:.0f}", str(one.requests), str(one.over), str(one.lost),
         _figure(one.p99_ms), one.outcome)
        for one in report.found.measured
    ]  # fmt: skip
    return measured


def multiple_rows(report: CapacityReport) -> list[tuple[str, ...]]:
    """Returns a header and the figures at multiples of the capacity, a row each."""
    figures: list[tuple[str, ...]] = [("load", "rate", "in time/s", "nDCG@10 a second", "p95 ms", "p99 ms", "timing")]
    figures += [
        (f"{one.multiple:g}x", f"{one.rate:g}/s", f"{one.goodput:.1f}", f"{one.ndcg_a_second:.1f}",
         *(Timed(ms, one.timing_valid).cell() for ms in (one.p95_ms, one.p99_ms)),
         "valid" if one.timing_valid else MARKED)
        for one in report.multiples
    ]  # fmt: skip
    return figures


def _at_multiple(multiple: float, point: LoadPointReport) -> CapacityMultiple:
    return CapacityMultiple(
        multiple=multiple,
        rate=point.rate or 0.0,
        goodput=point.goodput,
        ndcg_a_second=(point.quality.ndcg_at_10 or 0.0) * point.offered,
        p95_ms=point.latency_ms.p95.unchecked_ms,
        p99_ms=point.latency_ms.p99.unchecked_ms,
        timing_valid=point.timing_valid,
    )


def _sentence(report: CapacityReport) -> str:
    found, bound = report.found, f"with p99 <= {report.found.bound_ms:g} ms"
    reasons = "; ".join(found.reasons)
    match found.outcome:
        case "found":
            knee_part = "" if report.knee is None else f"; the knee is at {report.knee:g}/s"
            if report.multiples and report.knee is None:
                knee_part = "; the knee cannot be told, because times below the capacity are not valid"
            verified = f"in {found.verified} of {VERIFICATIONS} verifications"
            return f"{report.pipeline} carries {found.rate:g}/s {bound} {verified}{knee_part}."
        case "none":
            return f"{report.pipeline} carries no rate {bound}: {reasons}."
        case "cannot tell":
            return f"This machine cannot tell which rate {report.pipeline} carries {bound}: {reasons}."


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
