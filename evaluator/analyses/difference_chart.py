"""Draws the differences of pipelines from a baseline as bars, a group for each set (BEIR paper, figure 3). Pure."""

from collections.abc import Mapping, Sequence

from evaluator.analyses.averages import SetRow, ndcg_at_10
from evaluator.pages.plotted_svg import COLOURS, LIGHT, plotted_svg

ROW_INCHES = 0.28
LEAST_SPAN = 0.01  # of the scale: without it, bars of nearly equal pipelines would fill the chart

Differences = Mapping[str, Mapping[str, float]]  # label of the set → pipeline → nDCG@10 less that of the baseline


def differences_of(rows: Sequence[SetRow], pipelines: Sequence[str], baseline: str) -> Differences:
    """Returns the differences on the sets that have the baseline and another pipeline."""
    differences: dict[str, dict[str, float]] = {}
    for row in rows:
        base = row.figure(baseline, ndcg_at_10)
        for name in pipelines:
            figure = row.figure(name, ndcg_at_10)
            if name != baseline and figure is not None and base is not None:
                differences.setdefault(row.label, {})[name] = figure - base
    return differences


def difference_chart(differences: Differences, pipelines: Sequence[str], title: str, description: str) -> str:
    """Draws the chart. Pipelines are named beside their bars, and have the same colour on every set."""
    bars: list[tuple[str, str, float]] = []  # label of the row, pipeline, value
    for label, group in differences.items():
        bars += [
            (f"{label}\n{name}" if not at else name, name, value) for at, (name, value) in enumerate(group.items())
        ]
    values = [value for *_, value in bars]
    with plotted_svg(8.6, 1.3 + ROW_INCHES * len(bars), title, description) as plot:
        axes = plot.axes
        for row, (_, name, value) in enumerate(bars):
            axes.barh(row, value, 0.7, color=LIGHT[f"c{pipelines.index(name) % COLOURS}"])
            place, side = (4, "left") if value >= 0 else (-4, "right")
            axes.annotate(f"{value:+z.4f}", (value, row), (place, 0), textcoords="offset points", ha=side, va="center")
        low, high = min(0.0, *values), max(0.0, *values)
        room = max(high - low, LEAST_SPAN) * 0.12
        axes.set(xlim=(low - room, high + room), ylim=(len(bars) - 0.4, -0.6))
        axes.set_yticks(range(len(bars)), [label for label, *_ in bars])
        axes.axvline(0.0, color=LIGHT["soft"], linewidth=0.8)
        axes.set_xlabel("difference in nDCG@10")
        axes.grid(axis="x")
    return plot.svg
