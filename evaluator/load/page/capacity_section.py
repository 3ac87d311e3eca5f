"""Renders the capacities of a load as a section of load.md. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from evaluator.load.capacity.report import BEYOND, measured_table, multiple_rows
from evaluator.load.capacity.search import VERIFICATIONS, CapacityReport
from evaluator.load.page.capacity_chart import capacity_chart
from evaluator.pages.markdown_table import aligned

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


def capacity_charts(capacities: Sequence[CapacityReport]) -> Iterator[tuple[str, str, str]]:
    """Yields file, alternative text and content of the chart of each pipeline whose capacity was found."""
    for report in capacities:
        drawn = capacity_chart(report)
        if drawn is not None:
            yield capacity_file(report.pipeline), f"{CAPACITY_SHOWS}: {report.pipeline}", drawn


def capacity_section(capacities: Sequence[CapacityReport], arrivals: str, shown: Mapping[str, str]) -> list[str]:
    """Renders a row a pipeline, then what each of them met. `shown`: images by file. Empty without a search."""
    if not capacities:
        return []
    parts = ["## Capacity", aligned(_overview(capacities)), f"Arrivals: {arrivals}. {CAPACITY_WORDS}"]
    for report in capacities:
        parts += [f"### {report.pipeline}", report.sentence]
        parts += [shown[name] for name in (capacity_file(report.pipeline),) if name in shown]
        if report.multiples:
            parts.append(aligned(multiple_rows(report)))
        parts += ["<details><summary>Every measured rate, in order</summary>", measured_table(report), "</details>"]
    return parts


def _overview(capacities: Sequence[CapacityReport]) -> list[list[str]]:
    """Returns a header and a row a pipeline."""
    rows = [["pipeline", "p99 bound ms", "capacity", "verified", "knee", *(f"{at:g}x" for at in BEYOND)]]
    for report in capacities:
        found, at = report.found, {one.multiple: one for one in report.multiples}
        rate = found.outcome if found.rate is None else f"{found.rate:g}/s"
        verified = "–" if found.rate is None else f"{found.verified} of {VERIFICATIONS}"
        knee = "–" if report.knee is None else f"{report.knee:g}/s"
        beyond = [
            f"{at[one].goodput:.1f} ({at[one].ndcg_a_second:.1f})" if one in at else "–" for one in BEYOND
        ]  # fmt: skip
        rows.append([report.pipeline, f"{found.bound_ms:g}", rate, verified, knee, *beyond])
    return rows
