"""Draws what a pipeline answers and how long it takes against the offered rate, around its capacity, as SVG. Pure."""

from collections.abc import Sequence
from itertools import groupby

from evaluator.load.capacity import CapacityMultiple, CapacityReport
from evaluator.load.page.charts import PANEL, latency_scale
from evaluator.pages.svg_chart import Drawing, Scale, chart_number, colour
from evaluator.runs.latency import DOUBTFUL

GOODPUT, QUALITY = 0, 1  # numbers of the series, of colour and mark
P99, P95, SEARCHED = 0, 1, 3
WIDTH = 480.0  # a telephone shows it whole
LEFT, RIGHT = 56.0, 380.0  # of the plotted areas; names of series stand right of them
UPPER = 108.0
LOWER = UPPER + PANEL + 62
BOTTOM = LOWER + PANEL


def capacity_chart(report: CapacityReport) -> str | None:
    """Draws goodput above p95 and p99, both against the offered rate. None where no capacity was found."""
    capacity, points = report.found.rate, report.multiples
    if capacity is None or not points:
        return None
    title = f"{report.pipeline}: goodput and latency around the capacity"
    drawing = Drawing(WIDTH, BOTTOM + 134, title, f"{report.sentence} {_described(points)}")
    x = Scale(0.0, max(one.rate for one in points) * 1.05, LEFT, RIGHT)
    ticks = [(one.rate, f"{one.rate:g}") for one in points]
    drawing.text(16, UPPER - 60, "a second: answers in time, and their nDCG@10")
    drawing.text(16, UPPER - 42, "thin line: every request in time", "soft")
    _goodput_panel(drawing, points, x)
    drawing.horizontal_axis(x, UPPER + PANEL, ticks, "")
    drawing.text(16, LOWER - 12, f"ms from the planned send time (dashed: the bound of {report.found.bound_ms:g} ms)")
    _latency_panel(drawing, report, x)
    drawing.horizontal_axis(x, BOTTOM, ticks, "offered rate, requests a second")
    _mark_rates(drawing, capacity, report.knee, x)
    for line, note in enumerate(_notes(report)):
        drawing.text(16, BOTTOM + 64 + line * 18, note, "soft")
    return drawing.svg()


def _goodput_panel(drawing: Drawing, points: Sequence[CapacityMultiple], x: Scale) -> None:
    top = max(one.goodput for one in points) * 1.1 or 1.0
    y = Scale(0.0, top, UPPER + PANEL, UPPER)
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, chart_number(value)) for value in y.ticks()])
    reached = min(x.high, top)
    drawing.line([(x.at(0.0), y.at(0.0)), (x.at(reached), y.at(reached))], "axis")
    labels = []
    series = (
        (GOODPUT, "in time", [(one.rate, one.goodput) for one in points]),
        (QUALITY, "nDCG@10", [(one.rate, one.ndcg_a_second) for one in points]),
    )
    for number, name, values in series:
        line = [(x.at(rate), y.at(value)) for rate, value in values]
        drawing.line(line, f"line {colour(number)}")
        for place in line:
            drawing.mark(number, *place)
        labels.append((number, name, line[-1][1]))
    drawing.series_labels(RIGHT + 20, labels, UPPER, UPPER + PANEL)


def _latency_panel(drawing: Drawing, report: CapacityReport, x: Scale) -> None:
    points = report.multiples
    searched = [(one.rate, one.p99_ms) for one in report.found.measured if one.p99_ms is not None]
    searched = [(rate, ms) for rate, ms in searched if rate <= x.high]
    timed = [ms for one in points for ms in (one.p95_ms, one.p99_ms) if ms is not None]
    y = latency_scale([report.found.bound_ms, *timed, *(ms for _, ms in searched)], BOTTOM, LOWER)
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, chart_number(value)) for value in y.ticks()])
    bound = y.at(report.found.bound_ms)
    drawing.line([(LEFT, bound), (RIGHT, bound)], "axis dashed")
    for rate, ms in searched:
        drawing.mark(SEARCHED, x.at(rate), y.at(ms), "hollow")
    labels = []
    for number, name, times in (
        (P99, "p99", [one.p99_ms for one in points]),
        (P95, "p95", [one.p95_ms for one in points]),
    ):
        label: list[tuple[int, str, float]] = []
        # A line does not cross a rate without the percentile.
        for measured, run in groupby(zip(points, times, strict=True), key=lambda pair: pair[1] is not None):
            if measured:
                line = [(x.at(one.rate), y.at(ms or 0.0), one.timing_valid) for one, ms in run]
                look = "" if all(valid for *_, valid in line) else " dashed"
                drawing.line([(across, down) for across, down, _ in line], f"line {colour(number)}{look}")
                for across, down, valid in line:
                    (drawing.mark if valid else drawing.cross)(number, across, down)
                label = [(number, name, line[-1][1])]
        labels += label
    drawing.series_labels(RIGHT + 20, labels, LOWER, BOTTOM)


def _mark_rates(drawing: Drawing, capacity: float, knee: float | None, x: Scale) -> None:
    """Draws a line at the capacity and one at the knee, each with its label on the side away from the other."""
    marked = [(capacity, f"capacity {capacity:g}/s"), *([] if knee is None else [(knee, f"knee {knee:g}/s")])]
    marked.sort()
    for (rate, label), anchor in zip(marked, ("end", "start") if len(marked) == 2 else ("start",), strict=True):
        at = x.at(rate)
        for top, bottom in ((UPPER - 18, UPPER + PANEL), (LOWER, BOTTOM)):
            drawing.line([(at, top), (at, bottom)], "axis dashed")
        drawing.text(at - 4 if anchor == "end" else at + 4, UPPER - 8, label, "", anchor)


def _notes(report: CapacityReport) -> list[str]:
    """Says what the marks mean, of those that are there."""
    notes = []
    if any(one.p99_ms is not None for one in report.found.measured):
        notes.append("Hollow: p99 of a measurement of the search.")
    if any(one.p99_ms is None for one in report.multiples):
        notes.append("p99 needs 662 requests.")
    if not all(one.timing_valid for one in report.multiples):
        notes.append("Cross: times not valid (load.md says why);")
        notes.append("beyond the capacity they depend on the duration.")
    return notes


def _described(points: Sequence[CapacityMultiple]) -> str:
    def ms(value: float | None, one: CapacityMultiple) -> str:
        mark = "" if one.timing_valid else f" {DOUBTFUL}"
        return "none" if value is None else f"{chart_number(value)} ms{mark}"

    return "; ".join(
        f"at {one.rate:g}/s {one.goodput:.1f} in time a second, p95 {ms(one.p95_ms, one)}, p99 {ms(one.p99_ms, one)}"
        for one in points
    )
