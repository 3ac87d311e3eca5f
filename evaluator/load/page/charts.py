"""Draws the charts of a load: quality and p99 against the rate, percentiles, stages, what a capacity holds. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from evaluator.load.capacity import CapacityMultiple, CapacityReport
from evaluator.load.load_report import LoadReport
from evaluator.load.points.point_report import LoadPointReport
from evaluator.pages.plotted_svg import LIGHT, WIDTH, PlottedImage, chart_number, logarithmic, plotted_svg, series_look
from evaluator.pages.time_breakdown import PIECES, StackedTimes, piece_rows, stacked_times_chart
from evaluator.runs.latency import DOUBTFUL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The same share of the samples lies beyond the last percentile that is drawn as beyond a p99 of 662.
LEAST_BEYOND = 6.62
CHARTS_SHOWN = 4  # more fill several screens, and stand behind a summary
SHARES = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999)  # labelled, of the requests below a percentile
NO_P99 = "No p99: fewer than 662 requests."
DASHED = f"Dashed, {DOUBTFUL}: times that do not hold."
CUT_OFF = "A line ends where fewer than seven requests took longer."
Spectrum = Sequence[tuple[float, float]]  # share of the requests below, milliseconds


def rates_chart(report: LoadReport) -> str | None:
    """Draws nDCG@10 above p99, both against the offered rate. None without a point at a rate."""
    points = sorted((point for point in report.points if point.rate is not None), key=_rate)
    if not points:
        return None
    title = "Quality and latency of the same requests against load"
    with plotted_svg(WIDTH, 6.4, title, "; ".join(map(_described, points)), panels=2) as plot:
        upper, lower = plot.panels
        for number, name in enumerate(dict.fromkeys(point.pipeline for point in report.points if point in points)):
            own = [point for point in points if point.pipeline == name]
            rates, held = [_rate(point) for point in own], all(point.latency_ms.p99.holds for point in own)
            upper.plot(rates, [_or_gap(point.quality.ndcg_at_10) for point in own], label=name, **series_look(number))
            tails = [_or_gap(_p99(point)) for point in own]
            label = name if held else f"{name} {DOUBTFUL}"
            lower.plot(rates, tails, **series_look(number, held))
            for point in own:
                lower.plot([_rate(point)] * 2, _interval(point), **series_look(number, held) | {"marker": "_"}, lw=1)
            upper.get_lines()[-1].set_label(label)
        _rate_axis(plot, [_rate(point) for point in points])
        upper.set_title("nDCG@10 over all requests (late, failed, dropped: 0)")
        lower.set_title("p99 in ms, from the planned send time (bars: 95 %)")
        _latency_axis(lower, [end for point in points for end in _interval(point)])
        notes = [NO_P99] * any(_p99(point) is None for point in points)
        notes += [DASHED] * any(not point.latency_ms.p99.holds for point in points)
        lower.set_xlabel("\n".join(["offered rate, requests per second", *notes]))
        plot.legend()
    return plot.svg


def spectrum_chart(traffic: str, points: Sequence[LoadPointReport], spectra: Mapping[str, Spectrum]) -> str:
    """Draws latency against percentile, the tail widened as wrk2's spectrum. `spectra`: by pipeline."""
    title = f"Latency by percentile: {traffic}"
    described = "Milliseconds from the planned send time, by share of the requests that took no longer."
    with plotted_svg(WIDTH, 4.2, title, described) as plot:
        axes = plot.axes
        for number, point in enumerate(points):
            spectrum = spectra[point.pipeline]
            label = point.pipeline if point.timing_valid else f"{point.pipeline} {DOUBTFUL}"
            look = series_look(number, point.timing_valid) | {"marker": "", "label": label}
            axes.plot([_nines(share) for share, _ in spectrum], [ms for _, ms in spectrum], **look)
        last = max(_nines(share) for spectrum in spectra.values() for share, _ in spectrum)
        shown = [share for share in SHARES if _nines(share) <= last]
        axes.set_xlim(0, last * 1.02)
        axes.set_xticks([_nines(share) for share in shown], [f"{share * 100:.7g} %" for share in shown])
        _latency_axis(axes, [ms for spectrum in spectra.values() for _, ms in spectrum])
        axes.set_ylabel("ms")
        doubts = "" if all(point.timing_valid for point in points) else f"\n{DASHED}"
        axes.set_xlabel(f"share of the requests that took no longer\n{CUT_OFF}{doubts}")
        plot.legend()
    return plot.svg


def drawn_share(point: LoadPointReport) -> float:
    """Returns the greatest share of the requests whose latency is drawn: as p99, it needs enough beyond it."""
    n = point.latency_ms.n
    most = max(0.0, 1 - LEAST_BEYOND / n) if n else 0.0
    return most if point.loop == "open" else min(most, 0.95)


def capacity_chart(report: CapacityReport) -> str | None:
    """Draws goodput above p95 and p99, both against the offered rate. None where no capacity was found."""
    capacity, points = report.found.rate, report.multiples
    if capacity is None or not points:
        return None
    title = f"{report.pipeline}: goodput and latency around the capacity"
    described = f"{report.sentence} {'; '.join(map(_multiple_words, points))}"
    with plotted_svg(WIDTH, 6.6, title, described, panels=2) as plot:
        upper, lower = plot.panels
        rates, held = [point.rate for point in points], all(point.timing_valid for point in points)
        top = max(point.goodput for point in points) * 1.3 or 1.0
        whole = [rate for rate in rates if rate <= top]
        upper.plot(whole, whole, color=LIGHT["soft"], linewidth=0.8, label="every request in time")
        upper.plot(rates, [point.goodput for point in points], label="in time", **series_look(0))
        upper.plot(rates, [point.ndcg_a_second for point in points], label="nDCG@10", **series_look(1))
        lower.plot(rates, [_or_gap(point.p99_ms) for point in points], label="p99", **series_look(2, held))
        lower.plot(rates, [_or_gap(point.p95_ms) for point in points], label="p95", **series_look(3, held))
        searched = [(point.rate, point.p99_ms) for point in report.found.measured if point.p99_ms is not None]
        searched = [(rate, ms) for rate, ms in searched if rate <= max(rates)]
        look = series_look(4, held=False) | {"linestyle": "", "label": "p99 in the search"}
        lower.plot([rate for rate, _ in searched], [ms for _, ms in searched], **look)
        lower.axhline(report.found.bound_ms, color=LIGHT["soft"], linestyle="--", linewidth=1)
        marked = [
            (capacity, f"capacity {capacity:g}/s"),
            *([] if report.knee is None else [(report.knee, f"knee {report.knee:g}/s")]),
        ]
        for (rate, label), side in zip(sorted(marked), ("right", "left")[-len(marked) :], strict=True):
            for axes in plot.panels:
                axes.axvline(rate, color=LIGHT["soft"], linestyle=":", linewidth=1)
            upper.text(rate, top, f" {label} ", ha=side, va="top")
        upper.set_ylim(0, top)
        _rate_axis(plot, rates)
        times = [ms for point in points for ms in (point.p95_ms, point.p99_ms) if ms is not None]
        _latency_axis(lower, [report.found.bound_ms, *times, *(ms for _, ms in searched)])
        upper.set_title("per second: answers in time, and their nDCG@10")
        lower.set_title(f"ms from the planned send time (the bound: {report.found.bound_ms:g})")
        notes = [NO_P99] * any(point.p99_ms is None for point in points) + [DASHED] * (not held)
        lower.set_xlabel("\n".join(["offered rate, requests per second", *notes]))
        plot.legend()
    return plot.svg


def stages_chart(report: LoadReport) -> str | None:
    """Draws for each point where the mean latency went, as shares of it. None where no answer reports its times."""
    return stacked_times_chart("Where the time goes: shares of the mean latency", _bars(report))


def path_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and one row per piece of the chart."""
    header = ["pipeline", "traffic", *PIECES]
    return [header, *([bar.group, bar.name, *row] for bar in _bars(report) for row in piece_rows(bar))]


def _bars(report: LoadReport) -> list[StackedTimes]:
    return [
        StackedTimes(point.pipeline, point.traffic_in_words, point.path_ms, point.timing_valid)
        for point in report.points
    ]


def _rate_axis(plot: PlottedImage, rates: Sequence[float]) -> None:
    """Gives the panels one scale of rates: even from 0, or logarithmic where they span more than a decade."""
    low, high = min(rates), max(rates)
    for axes in plot.panels:
        if high > low * 10 > 0:
            logarithmic(axes.xaxis, low / 1.3, high * 1.3)
        else:
            axes.set_xlim(0, high * 1.08)
        axes.grid(axis="y")


def _latency_axis(axes: "Axes", values: Sequence[float]) -> None:
    """Gives an axis a logarithmic scale of milliseconds, at least wide enough for two labelled ticks."""
    positive = [value for value in values if value > 0] or [1.0]
    low, high = min(positive) / 1.25, max(positive) * 1.25
    middle = math.sqrt(low * high)
    logarithmic(axes.yaxis, min(low, middle / 3), max(high, middle * 3))
    axes.grid(axis="y")


def _rate(point: LoadPointReport) -> float:
    return point.rate or 0.0


def _p99(point: LoadPointReport) -> float | None:
    return point.latency_ms.p99.unchecked_ms


def _interval(point: LoadPointReport) -> tuple[float, ...]:
    """Returns the interval of the p99, or it alone twice; nothing without one."""
    tail = _p99(point)
    return (math.nan, math.nan) if tail is None else point.latency_ms.intervals.get("p99") or (tail, tail)


def _or_gap(value: float | None) -> float:
    """Returns a value as it is drawn: a line does not cross a place without one."""
    return math.nan if value is None else value


def _nines(share: float) -> float:
    """Returns the place of a share on the axis: each further nine takes the same length."""
    return -math.log10(1 - share)


def _described(point: LoadPointReport) -> str:
    ndcg = "–" if point.quality.ndcg_at_10 is None else f"{point.quality.ndcg_at_10:.4f}"
    return f"{point.pipeline} at {point.rate:g}/s: nDCG@10 {ndcg}, p99 {point.latency_ms.p99.cell()} ms"


def _multiple_words(point: CapacityMultiple) -> str:
    p95, p99 = (_ms_words(ms, point.timing_valid) for ms in (point.p95_ms, point.p99_ms))
    return f"at {point.rate:g}/s {point.goodput:.1f} in time per second, p95 {p95}, p99 {p99}"


def _ms_words(ms: float | None, valid: bool) -> str:
    return "none" if ms is None else f"{chart_number(ms)}{'' if valid else DOUBTFUL} ms"
