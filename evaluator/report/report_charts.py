"""Draws the charts of a report: each an SVG file of its own in `charts/` of the run's folder. Pure."""

from evaluator.comparison.differences_chart import differences_chart
from evaluator.pages.stacked_times_chart import stacked_times_chart
from evaluator.report.quality_latency_chart import quality_latency_chart
from evaluator.report.report import Report
from evaluator.report.report_tables import pair_differences, stacked_times

QUALITY_LATENCY = "charts/quality-latency.svg"
DIFFERENCES = "charts/differences.svg"
STAGES_CHART = "charts/stages.svg"


def report_charts(report: Report) -> dict[str, str]:
    """Returns SVG by path within the run's folder, of those charts that there is something to draw for."""
    drawn = {
        QUALITY_LATENCY: quality_latency_chart(report),
        DIFFERENCES: differences_chart(pair_differences(report)),
        STAGES_CHART: stacked_times_chart(
            "Where the time goes: shares of the mean latency, one query at a time", stacked_times(report)
        ),
    }
    return {path: svg for path, svg in drawn.items() if svg is not None}
