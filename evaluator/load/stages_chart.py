"""Draws and tells where the mean latency of every point of a load went. Pure."""

from evaluator.load.report import LoadReport
from evaluator.pages.stacked_times_chart import PIECES, StackedTimes, piece_rows, stacked_times_chart


def stages_chart(report: LoadReport) -> str | None:
    """Draws for each point where the mean latency went, as shares of it. None where no answer reports its times."""
    return stacked_times_chart("Where the time goes: shares of the mean latency", _bars(report))


def path_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header and what the chart shows, a piece a row."""
    header = ["pipeline", "traffic", *PIECES]
    return [header, *([one.group, one.name, *row] for one in _bars(report) for row in piece_rows(one))]


def _bars(report: LoadReport) -> list[StackedTimes]:
    return [
        StackedTimes(point.pipeline, point.traffic_in_words, point.path_ms, point.timing_valid)
        for point in report.points
    ]
