"""Builds the overview of the capacities of a load, and their charts. Pure."""

from collections.abc import Iterator, Sequence

from evaluator.load.capacity import BEYOND, VERIFICATIONS, CapacityReport
from evaluator.load.page.capacity_chart import capacity_chart

CAPACITY_WORDS = (
    "The capacity is the highest rate found at which at most 1 % of the requests took longer than the bound, and at "
    "most 1 % were lost, late or degraded. The knee is the swept rate with the most answers in time a second per p95. "
    "At multiples of the capacity: answers in time a second, in brackets their nDCG@10 a second. "
    "[capacity.json](capacity.json) holds all of it."
)


CAPACITY_SHOWS = "Goodput and latency around the capacity"


def capacity_file(pipeline: str) -> str:
    """Returns the name of a pipeline's chart in load/."""
    return f"capacity-{pipeline}.svg"


def capacity_charts(capacities: Sequence[CapacityReport]) -> Iterator[tuple[str, str]]:
    """Yields the name and the content of the chart of each pipeline whose capacity was found."""
    for report in capacities:
        drawn = capacity_chart(report)
        if drawn is not None:
            yield capacity_file(report.pipeline), drawn


def overview_rows(capacities: Sequence[CapacityReport]) -> list[list[str]]:
    """Returns a header and a row a pipeline."""
    rows = [["pipeline", "p99 bound ms", "capacity", "verified", "knee", *(f"{at:g}x" for at in BEYOND)]]
    for report in capacities:
        found, at = report.found, {one.multiple: one for one in report.multiples}
        rate = found.outcome if found.rate is None else f"{found.rate:g}/s"
        verified = "–" if found.rate is None else f"{found.verified} of {VERIFICATIONS}"
        knee = "–" if report.knee is None else f"{report.knee:g}/s"
        beyond = [f"{at[one].goodput:.1f} ({at[one].ndcg_a_second:.1f})" if one in at else "–" for one in BEYOND]
        rows.append([report.pipeline, f"{found.bound_ms:g}", rate, verified, knee, *beyond])
    return rows
