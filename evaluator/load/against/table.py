"""Renders the comparison of two stacks: a sentence a pipeline and rate, and a table. Pure."""

from collections.abc import Iterator

from evaluator.load.against.report import AgainstPoint, AgainstReport, StackFigures
from evaluator.pages.markdown_table import aligned
from evaluator.runs.latency import MARKED

HEADER = (
    "pipeline",
    "rate",
    "gateway",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "nDCG@10",
    "requests",
    "late",
    "failed",
    "dropped",
)


def render_against(report: AgainstReport) -> str:
    """Renders the table and, beneath it, what follows from it and what a reader should know beside it."""
    rows = [row for point in report.points for row in _rows(point)]
    sentences = [sentence for point in report.points for sentence in _sentences(point)]
    return "\n\n".join([aligned([HEADER, *rows]), *sentences, *report.remarks])


def _rows(point: AgainstPoint) -> Iterator[list[str]]:
    for one in (point.baseline, point.judged):
        if one is not None:
            yield [point.pipeline, f"{point.rate:g}/s", one.url, *_cells(one)]


def _cells(one: StackFigures) -> Iterator[str]:
    for time in (one.latency_ms.p50, one.latency_ms.p95, one.latency_ms.p99):
        yield time.cell()
    yield f"{one.ndcg_at_10:.4f}"
    for count in (one.counts.requests, one.counts.late, one.counts.failed, one.counts.dropped):
        yield str(count)


def _sentences(point: AgainstPoint) -> Iterator[str]:
    name = f"{point.pipeline} at {point.rate:g}/s"
    for fault in point.timing_faults:
        yield f"{name}: times {MARKED}, because {fault}"
    if point.speed is not None:
        left_out = f" {point.left_out} of {point.pairs} pairs of slices left out: the machine was busy."
        yield f"{name}: {point.speed.sentence}{left_out if point.left_out else ''}"
    if point.quality is not None:
        yield f"{name}: {point.quality.sentence}"
