"""Draws the charts of a load as SVG: nDCG@10 and p99 against the rate, latency by percentile, and stages. Pure."""

import math
from collections.abc import Mapping, Sequence
from itertools import groupby, pairwise

from evaluator.load.load_report import LoadReport
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.stacked_times_chart import PIECES, StackedTimes, piece_rows, stacked_times_chart
from evaluator.pages.svg_chart import LEGEND_PX, Drawing, Scale, chart_number, colour, round_step
from evaluator.runs.latency import DOUBTFUL

WIDTH = 860.0
LEFT, RIGHT = 70.0, 690.0  # of the plotted area; names of pipelines stand right of it
PANEL = 200.0
# The same share of the samples lies beyond the last percentile that is drawn as beyond a p99 of 662.
LEAST_BEYOND = 6.62
CHARTS_SHOWN = 4  # more fill several screens, and stand behind a summary
Spectrum = Sequence[tuple[float, float]]  # share of the requests below, milliseconds


def rates_chart(report: LoadReport) -> str | None:
    """Draws nDCG@10 above p99, both against the offered rate. None without a point at a rate."""
    points = [point for point in report.points if point.rate is not None]
    if not points:
        return None
    pipelines = list(dict.fromkeys(point.pipeline for point in points))
    numbers = {name: number for number, name in enumerate(pipelines)}
    missing = [name for name in pipelines if any(_p99(one) is None for one in points if one.pipeline == name)]
    band = LEGEND_PX * len(missing) + (26 if missing else 0)
    upper, lower = 74.0, 74.0 + PANEL + 62
    bottom = lower + band + PANEL
    drawing = Drawing(WIDTH, bottom + 82, "Quality and latency of the same requests against load", _described(points))
    rates = sorted({point.rate or 0.0 for point in points})
    x = _rate_scale(rates)
    ticks = [(rate, f"{rate:g}") for rate in rates]
    drawing.text(
        LEFT, upper - 12, "nDCG@10 over all requests (late, failed, dropped: 0), of one draw of queries at every rate"
    )
    _quality_panel(drawing, points, numbers, x, upper)
    drawing.horizontal_axis(x, upper + PANEL, ticks, "")
    drawing.text(LEFT, lower - 12, "p99 in ms, from the planned send time (bars: 95 % intervals)")
    if missing:
        _missing_band(drawing, points, numbers, missing, x, lower)
    _tail_panel(drawing, points, numbers, x, lower + band)
    drawing.horizontal_axis(x, bottom, ticks, "offered rate, requests a second")
    drawing.text(LEFT, bottom + 64, _legend_of_missing(points), "soft")
    return drawing.svg()


def spectrum_chart(traffic: str, points: Sequence[LoadPointReport], spectra: Mapping[str, Spectrum]) -> str:
    """Draws latency against percentile, the tail widened as wrk2's spectrum. `spectra`: by pipeline."""
    top, bottom = 60.0, 60.0 + 300
    drawing = Drawing(
        WIDTH,
        bottom + 80,
        f"Latency by percentile: {traffic}",
        "Milliseconds from the planned send time, by share of the requests that took no longer.",
    )
    values = [ms for spectrum in spectra.values() for _, ms in spectrum]
    x = Scale(0.0, max(_nines(share) for spectrum in spectra.values() for share, _ in spectrum), LEFT, RIGHT)
    y = latency_scale(values, bottom, top)
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, chart_number(value)) for value in y.ticks()])
    labels = []
    for number, point in enumerate(points):
        line = [(x.at(_nines(share)), y.at(ms)) for share, ms in spectra[point.pipeline]]
        drawing.line(line, f"line {colour(number)}{'' if point.timing_valid else ' dashed'}")
        mark = "" if point.timing_valid else f" {DOUBTFUL}"
        labels.append((number, f"{point.pipeline}{mark}", line[-1][1]))
    drawing.series_labels(RIGHT + 20, labels, top, bottom)
    shares = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999]
    drawing.horizontal_axis(
        x, bottom, [(_nines(one), f"{one * 100:.7g} %") for one in shares if _nines(one) <= x.high], ""
    )
    drawing.text((LEFT + RIGHT) / 2, bottom + 38, "share of the requests that took no longer", "soft", "middle")
    drawing.text(LEFT, top - 14, "ms")
    note = "A line ends where fewer than seven requests are left beyond it."
    if not all(point.timing_valid for point in points):
        note += f" Dashed, {DOUBTFUL}: times that do not hold."
    drawing.text(LEFT, bottom + 62, note, "soft")
    return drawing.svg()


def drawn_share(point: LoadPointReport) -> float:
    """Returns the greatest share of the requests whose latency is drawn: as p99, it needs enough beyond it."""
    n = point.latency_ms.n
    most = max(0.0, 1 - LEAST_BEYOND / n) if n else 0.0
    return most if point.loop == "open" else min(most, 0.95)


def _quality_panel(
    drawing: Drawing, points: Sequence[LoadPointReport], numbers: Mapping[str, int], x: Scale, top: float
) -> None:
    values = [value for point in points if (value := point.quality.ndcg_at_10) is not None]
    if not values:
        return
    low, high = min(values), max(values)
    # From 0, unless all values lie close together: then their differences are what is to be seen.
    low = 0.0 if low < high * 0.6 else max(0.0, low - 0.02)
    high = min(1.0, high + 0.02)
    step = round_step((high - low) / 5)
    y = Scale(math.floor(low / step) * step, math.ceil(high / step - 1e-9) * step, top + PANEL, top)
    drawing.vertical_axis(
        y, LEFT, RIGHT, [(value, f"{value:.2f}" if step >= 0.01 else f"{value:.3f}") for value in y.ticks()]
    )
    labels = []
    for name, number in numbers.items():
        line = [(x.at(one.rate or 0.0), y.at(one.quality.ndcg_at_10)) for one in _of(points, name)
                if one.quality.ndcg_at_10 is not None]  # fmt: skip
        labels += _series(drawing, number, name, line)
    drawing.series_labels(RIGHT + 20, labels, top, top + PANEL)


def _tail_panel(
    drawing: Drawing, points: Sequence[LoadPointReport], numbers: Mapping[str, int], x: Scale, top: float
) -> None:
    tails = [tail for point in points if (tail := _p99(point)) is not None]
    if not tails:
        drawing.text((LEFT + RIGHT) / 2, top + PANEL / 2, "no p99 to draw", "soft", "middle")
        return
    bounds = [bound for point in points if _p99(point) is not None for bound in _interval(point)]
    y = latency_scale([*tails, *bounds], top + PANEL, top)
    drawing.vertical_axis(y, LEFT, RIGHT, [(value, chart_number(value)) for value in y.ticks()])
    labels = []
    for name, number in numbers.items():
        label: list[tuple[int, str, float]] = []
        # A line does not cross a point without p99.
        for measured, run in groupby(_of(points, name), key=lambda one: _p99(one) is not None):
            if measured:
                places, held = [], []
                for one in run:
                    place, look = x.at(one.rate or 0.0), "" if one.timing_valid else " dashed"
                    drawing.line(
                        [(place, y.at(bound)) for bound in _interval(one)], f"line thin {colour(number)}{look}"
                    )
                    places.append((place, y.at(_p99(one) or 0.0)))
                    held.append(one.timing_valid)
                label = _series(drawing, number, name, places, held)
        labels += label
    drawing.series_labels(RIGHT + 20, labels, top, top + PANEL)


def _series(
    drawing: Drawing, number: int, name: str, line: Sequence[tuple[float, float]], held: Sequence[bool] = ()
) -> list[tuple[int, str, float]]:
    """Draws a line with its marks; returns its label, if there is anything to name.

    `held`: whether the time of each place holds; without it, all do. Beside one that does not, the line is dashed.
    """
    if not line:
        return []
    if all(held):
        drawing.line(line, f"line {colour(number)}")
    for (one, sure), (other, other_sure) in pairwise(zip(line, held, strict=False)):
        if not all(held):
            drawing.line([one, other], f"line {colour(number)}{'' if sure and other_sure else ' dashed'}")
    for place, sure in zip(line, held or [True] * len(line), strict=True):
        drawing.mark(number, *place, "mark" if sure else "hollow")
    return [(number, name if all(held) else f"{name} {DOUBTFUL}", line[-1][1])]


def _missing_band(
    drawing: Drawing,
    points: Sequence[LoadPointReport],
    numbers: Mapping[str, int],
    missing: Sequence[str],
    x: Scale,
    top: float,
) -> None:
    """Marks the points without p99 above the panel, a row a pipeline."""
    drawing.rectangle(LEFT, top, RIGHT - LEFT, LEGEND_PX * len(missing) + 6, "band")
    drawing.text(LEFT - 8, top + 15, "no p99", "soft", "end")
    for row, name in enumerate(missing):
        y = top + 11 + row * LEGEND_PX
        for point in _of(points, name):
            if _p99(point) is None:
                drawing.mark(numbers[name], x.at(point.rate or 0.0), y, "hollow")
        drawing.text(RIGHT + 30, y + 4, name, "soft")


def _legend_of_missing(points: Sequence[LoadPointReport]) -> str:
    """Explains the marks of points without p99, and of times that do not hold."""
    notes = []
    if any(_p99(point) is None for point in points):
        notes.append("No p99: fewer than 662 requests.")
    if any(not point.timing_valid and _p99(point) is not None for point in points):
        notes.append(f"Dashed, {DOUBTFUL}: times that do not hold (load.md has the reasons).")
    return " ".join(notes)


def _rate_scale(rates: Sequence[float]) -> Scale:
    """Returns the scale of rates: even from 0, or logarithmic where they span more than a decade."""
    low, high = min(rates), max(rates)
    if high > low * 10:
        return Scale(low / 1.3, high * 1.3, LEFT, RIGHT, logarithmic=True)
    return Scale(0.0, high * 1.08, LEFT, RIGHT)


def latency_scale(values: Sequence[float], bottom: float, top: float) -> Scale:
    """Returns a logarithmic scale of milliseconds, at least wide enough for two labelled ticks."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive) / 1.25, max(positive) * 1.25
    middle = math.sqrt(low * high)
    return Scale(min(low, middle / 3), max(high, middle * 3), bottom, top, logarithmic=True)


def _of(points: Sequence[LoadPointReport], pipeline: str) -> list[LoadPointReport]:
    return sorted((one for one in points if one.pipeline == pipeline), key=lambda one: one.rate or 0.0)


def _p99(point: LoadPointReport) -> float | None:
    return point.latency_ms.p99.unchecked_ms


def _mark(point: LoadPointReport) -> str:
    return "" if point.timing_valid else DOUBTFUL


def _interval(point: LoadPointReport) -> tuple[float, float]:
    tail = _p99(point) or 0.0
    return point.latency_ms.intervals.get("p99") or (tail, tail)


def _nines(share: float) -> float:
    """Returns the place of a share on the axis: each further nine takes the same length."""
    return -math.log10(1 - share)


def _described(points: Sequence[LoadPointReport]) -> str:
    def described(point: LoadPointReport) -> str:
        ndcg, tail = point.quality.ndcg_at_10, _p99(point)
        return (
            f"{point.pipeline} at {point.rate:g}/s: nDCG@10 {'–' if ndcg is None else f'{ndcg:.4f}'}, "
            f"p99 {'none' if tail is None else f'{chart_number(tail)}{_mark(point)} ms'}"
        )

    return "; ".join(described(point) for point in points)


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
