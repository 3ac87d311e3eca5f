"""Draws where the mean latency of every point of a load went. Pure."""

from evaluator.load.report import LoadReport
from evaluator.stacked_times_chart import StackedTimes, stacked_times_chart


def stages_chart(report: LoadReport) -> str | None:
    """Draws for each point where the mean latency went, as shares of it. None where no answer reports its times."""
    return stacked_times_chart(
        "Where the time goes: shares of the mean latency",
        [
            StackedTimes(point.pipeline, point.traffic_in_words, point.path_ms, point.timing_valid)
            for point in report.points
        ],
    )
