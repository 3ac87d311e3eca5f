"""Draws the quality of each pipeline against its latency, a mark each, with the interval of the quality. Pure.

Times that do not hold are marked, and drawn dashed and hollow.
"""

import math

from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.svg_chart import LEGEND_PX, Drawing, Scale, chart_number, colour, round_step, text_width
from evaluator.report.report import Report
from evaluator.runs.latency import DOUBTFUL

WIDTH = 480.0  # a telephone shows it whole
LEFT, RIGHT = 56.0, 464.0  # of the plotted area; names of pipelines stand beneath it
TOP, BOTTOM = 72.0, 320.0
LEGEND = BOTTOM + 78
METRIC = "nDCG@10"


def quality_latency_chart(report: Report) -> str | None:
    """Draws nDCG@10 (or the first metric measured) against p50. None where times were not measured or not checked."""
    metric = METRIC if METRIC in next(iter(report.pipelines.values())).quality else None
    if metric is None:
        metric = next(iter(next(iter(report.pipelines.values())).quality), None)
    if report.timing_valid is None or metric is None:
        return None
    found = [
        (name, p50, value, outcome.intervals.get(metric) or (value, value))
        for name, outcome in report.pipelines.items()
        if (p50 := outcome.latency_ms.p50.unchecked_ms) is not None
        and (value := outcome.quality.get(metric)) is not None
    ]
    if not found:
        return None
    label = parse_metric(metric).label(report.depth)
    doubt, bar, look = ("", "", "mark") if report.timing_valid else (DOUBTFUL, " dashed", "hollow")
    labels = [f"{name} ({chart_number(p50)}{doubt} ms)" for name, p50, _, _ in found]
    columns = 2 if max(map(text_width, labels)) < (RIGHT - LEFT) / 2 - 10 else 1
    drawing = Drawing(
        WIDTH,
        LEGEND + math.ceil(len(labels) / columns) * LEGEND_PX,
        f"{label} against latency",
        "; ".join(
            f"{name}: {label} {value:.4f} (95 % interval {low:.4f} to {high:.4f}), p50 {chart_number(p50)}{doubt} ms"
            for name, p50, value, (low, high) in found
        ),
    )
    x = _latency_scale([p50 for _, p50, _, _ in found])
    y = _quality_scale([bound for *_, interval in found for bound in interval])
    digits = max(0, -math.floor(math.log10(round_step((y.high - y.low) / 5)) + 1e-9))
    drawing.text(LEFT, TOP - 18, f"{label}, with its 95 % interval: higher is better", "soft")
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, f"{value:.{digits}f}") for value in y.ticks()])
    ticks = [(value, chart_number(value)) for value in x.ticks()]
    caption = "p50 in ms, one query at a time: further left is faster"
    drawing.horizontal_axis(x, BOTTOM, ticks, caption)
    if doubt:
        drawing.text((LEFT + RIGHT) / 2, BOTTOM + 55, f"dashed, {doubt}: times do not hold", "soft", "middle")
    for number, (_, p50, value, (low, high)) in enumerate(found):
        place = x.at(p50)
        drawing.line([(place, y.at(low)), (place, y.at(high))], f"line thin {colour(number)}{bar}")
        for bound in (low, high):
            drawing.line([(place - 4, y.at(bound)), (place + 4, y.at(bound))], f"line thin {colour(number)}")
        drawing.mark(number, place, y.at(value), look)
    for number, label in enumerate(labels):
        left, line = LEFT + number % columns * (RIGHT - LEFT) / columns, LEGEND + number // columns * LEGEND_PX
        drawing.mark(number, left, line, look)
        drawing.text(left + 10, line + 4, label)
    return drawing.svg()


def _latency_scale(times_ms: list[float]) -> Scale:
    """Returns an even scale from 0, or a logarithmic one where the times span more than a factor of five."""
    low, high = min(times_ms), max(times_ms)
    if high > 5 * low > 0:
        return Scale(low / 1.4, high * 1.25, LEFT, RIGHT, logarithmic=True)
    return Scale(0.0, (high or 1.0) * 1.15, LEFT, RIGHT)


def _quality_scale(values: list[float]) -> Scale:
    """Returns a scale around the values, with round ends."""
    low, high = min(values), max(values)
    step = round_step(max(high - low, 0.02) / 5)
    low, high = math.floor(low / step - 0.25) * step, math.ceil(high / step + 0.25) * step
    return Scale(max(0.0, low), high, BOTTOM, TOP)
