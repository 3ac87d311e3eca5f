"""Draws the differences of pipelines from a baseline as bars, a group for each set (BEIR paper, figure 3). Pure."""

from collections.abc import Mapping, Sequence

from evaluator.analyses.averages import SetRow, ndcg_at_10
from evaluator.pages.svg_chart import Drawing, Scale, colour, text_width

WIDTH = 860.0
ROW_PX, GAP_PX = 18.0, 30.0  # of a bar with the space around it; above each group, for the name of its set
TOP = 52.0
VALUE_PX = 64.0  # left and right of the bars, for their values
LEAST_SPAN = 0.01  # of the scale: without it, bars of nearly equal pipelines would fill the chart

Differences = Mapping[str, Mapping[str, float]]  # label of the set → pipeline → nDCG@10 less that of the baseline


def differences_of(rows: Sequence[SetRow], pipelines: Sequence[str], baseline: str) -> Differences:
    """Returns the differences on the sets that have the baseline and another pipeline."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        base = row.figure(baseline, ndcg_at_10)
        for name in pipelines:
            figure = row.figure(name, ndcg_at_10)
            if name != baseline and figure is not None and base is not None:
                found.setdefault(row.label, {})[name] = figure - base
    return found


def difference_chart(differences: Differences, pipelines: Sequence[str], title: str, description: str) -> str:
    """Draws the chart. Pipelines are named beside their bars, and have the same colour on every set."""
    bars = sum(map(len, differences.values()))
    bottom = TOP + bars * ROW_PX + len(differences) * GAP_PX
    drawing = Drawing(WIDTH, bottom + 56, title, description)
    left = 32 + max(text_width(name) for group in differences.values() for name in group)
    values = [value for group in differences.values() for value in group.values()]
    low, high = min(0.0, *values), max(0.0, *values)
    if high - low < LEAST_SPAN:
        low, high = low - LEAST_SPAN / 2, high + LEAST_SPAN / 2
    x = Scale(low, high, left + VALUE_PX, WIDTH - 16 - VALUE_PX)
    ticks = x.ticks()
    for value in ticks:
        drawing.line([(x.at(value), TOP + 8), (x.at(value), bottom)], "grid")
    y = TOP
    for label, group in differences.items():
        drawing.text(16, y + 22, label, "name")
        y += GAP_PX
        for name, value in group.items():
            start, end = sorted((x.at(0.0), x.at(value)))
            drawing.text(left - 8, y + 13, name, "soft", "end")
            drawing.rectangle(start, y + 3, end - start, ROW_PX - 6, f"mark thin {colour(pipelines.index(name))}")
            beside = (end + 5, "start") if value >= 0 else (start - 5, "end")
            drawing.text(beside[0], y + 13, f"{value:+z.4f}", "", beside[1])
            y += ROW_PX
    drawing.line([(x.at(0.0), TOP + 8), (x.at(0.0), bottom)], "axis")
    drawing.horizontal_axis(
        x, bottom, [(value, f"{value:+z.2g}" if value else "0") for value in ticks], "difference in nDCG@10"
    )
    return drawing.svg()
