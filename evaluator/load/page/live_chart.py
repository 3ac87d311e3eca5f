"""Draws and describes how a load has done in its last seconds, while it runs. Pure."""

from collections.abc import Sequence
from itertools import groupby, takewhile

from evaluator.load.page.charts import latency_scale
from evaluator.load.sending.live import EVERY_S, WINDOW_S, LiveFigures
from evaluator.pages.svg_chart import Drawing, Scale, chart_number, colour

# Narrow, so that a window of 390 pixels shows it whole and its letters can be read there.
WIDTH, HEIGHT = 480.0, 236.0
LEFT, RIGHT, TOP, BOTTOM = 50.0, 400.0, 60.0, 186.0


def live_chart(figures: Sequence[LiveFigures]) -> str | None:
    """Draws p50 and p99 of the answers of the last 10 s, a point a second, the newest to the right.

    Only the traffic of the last second is drawn: the turns of pipelines before it are other times. Seconds with lost
    requests have a cross below. None before there is an answer.
    """
    if not figures:
        return None
    last = figures[-1]
    figures = list(takewhile(lambda one: one.traffic == last.traffic, reversed(figures)))[::-1]
    times = [ms for one in figures for ms in (one.p50_ms, one.p99_ms) if ms is not None]
    if not times:
        return None
    drawing = Drawing(WIDTH, HEIGHT, f"Latest seconds: {last.traffic}", last.line)
    x = Scale(min(-10.0, 1.0 - len(figures)), 0.0, LEFT, RIGHT)
    y = latency_scale(times, BOTTOM, TOP)
    drawing.text(LEFT, TOP - 16, "ms of the answers of the last 10 s", "soft")
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, chart_number(value)) for value in y.ticks()])
    drawing.horizontal_axis(x, BOTTOM, [(at, f"{at:g}" if at else "now") for at in x.ticks()], "seconds")
    labels = []
    for number, name in enumerate(("p50", "p99")):
        points = [
            (at - len(figures) + 1.0, one.p50_ms if name == "p50" else one.p99_ms) for at, one in enumerate(figures)
        ]
        # A line does not cross seconds without an answer.
        for answered, run in groupby(points, key=lambda point: point[1] is not None):
            if answered:
                line = [(x.at(at), y.at(ms or 0.0)) for at, ms in run]
                drawing.line(line, f"line {colour(number)}")
                label = (number, name, line[-1][1])
        labels.append(label)
    for at, one in enumerate(figures):
        if one.lost:
            drawing.cross(1, x.at(at - len(figures) + 1.0), BOTTOM - 6)
    drawing.series_labels(RIGHT + 20, labels, TOP, BOTTOM)
    return drawing.svg()


def live_rows(figures: Sequence[LiveFigures]) -> list[list[str]]:
    """Returns a header and figures of the chart, the newest first, in steps of the seconds that each is of."""
    rows = [["when", "requests/s", "in flight", "p50 ms", "p99 ms", "degraded", "lost"]]
    step = round(WINDOW_S / EVERY_S)
    for at, one in enumerate(figures[::-1][::step]):
        times = ["–" if ms is None else f"{ms:.0f}" for ms in (one.p50_ms, one.p99_ms)]
        when = f"{at * WINDOW_S:.0f} s ago" if at else "now"
        rows.append([when, f"{one.rate:.1f}", str(one.in_flight), *times, str(one.degraded), str(one.lost)])
    return rows
