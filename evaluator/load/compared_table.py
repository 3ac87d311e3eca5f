"""Renders the comparison of a load with an earlier run: a table, and a sentence a point. Pure."""

from collections.abc import Iterator

from evaluator.load.calibration import Calibration
from evaluator.load.compared import calibration_remarks
from evaluator.load.compared_report import ComparedPoint, ComparedReport, RunFigures
from evaluator.pages.markdown_table import aligned
from evaluator.runs.latency import DOUBTFUL

HEADER = ("pipeline", "rate", "run", "p50 ms", "p95 ms", "stub p50 ms", "in time/s", "nDCG@10")


def render_compared(report: ComparedReport) -> str:
    """Renders the table and, beneath it, what follows from it and what else differs.

    Times that are not valid are marked, as in the table of the load.
    """
    rows = [row for point in report.points for row in _rows(report, point)]
    said = [f"{point.name}: {report.sentence(point)}." for point in report.points]
    for which, calibration in (("old", report.old_calibration), ("new", report.new_calibration)):
        said += calibration_remarks(which, calibration, report.margin)
    if any(point.intervals_from == "binomial" for point in report.points):
        said.append("Intervals take requests as independent, because the same requests of both runs are not there.")
    if report.remarks:
        said.append("Also different from the old run: " + "; ".join(report.remarks) + ".")
    return "\n\n".join([aligned([HEADER, *rows]), *said])


def _rows(report: ComparedReport, point: ComparedPoint) -> Iterator[list[str]]:
    for run, one, calibration in (
        ("old", point.old, report.old_calibration),
        ("new", point.new, report.new_calibration),
    ):
        yield [point.pipeline, point.traffic, run, *_cells(one, calibration)]


def _cells(one: RunFigures, calibration: Calibration) -> Iterator[str]:
    for value in (one.latency_ms.p50, one.latency_ms.p95):
        yield "–" if value is None else f"{value:.1f}{'' if one.timing_valid else DOUBTFUL}"
    ends = (calibration.before.service_ms.p50, calibration.after.service_ms.p50)
    yield ", ".join("–" if value is None else f"{value:.2f}" for value in ends)
    yield f"{one.goodput:.1f}"
    yield "–" if one.ndcg_at_10 is None else f"{one.ndcg_at_10:.4f}"
