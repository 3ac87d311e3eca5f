"""Draws the figures of an analysis as SVG: which there are, and what each is called."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evaluator.analyses.analysis_report import Analysis, LengthDistribution, SetAnalysis, VocabularyOverlap
from evaluator.analyses.averages import Differences, SetRow, differences_of
from evaluator.pages.plotted_svg import COLOURS, LIGHT, plotted_svg

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes

CELL_INCHES = 0.62
# Texts on cells, which have the same colour on light and dark paper; neither is a colour of the palette.
ON_LIGHT, ON_DARK = "#111111", "#fafafa"
DARK_FROM = 0.68  # of the scale
RELEVANT = "judged relevant"
ROW_INCHES = 0.55
BAR_INCHES = 0.28
LEAST_SPAN = 0.01  # of the scale: without it, bars of nearly equal pipelines would fill the chart


@dataclass(frozen=True, slots=True)
class PaperFigure:
    """A figure: a description for readers who do not see it, and the file's content."""

    description: str
    svg: str


def paper_figures(analysis: Analysis, rows: Sequence[SetRow]) -> dict[str, PaperFigure]:
    """Returns the figures by file name without its ending, in the order of the paper."""
    return dict(_figures(analysis, rows))


def _figures(analysis: Analysis, rows: Sequence[SetRow]) -> Iterator[tuple[str, PaperFigure]]:
    if analysis.overlaps:
        closest = max(analysis.overlaps, key=lambda pair: pair.weighted_jaccard)
        title = "Figure 2: overlap of vocabularies"
        description = (
            f"Weighted Jaccard similarity of the words of each pair of sets. The most alike are {closest.first} and "
            f"{closest.second}, {closest.weighted_jaccard:.2f}."
        )
        svg = overlap_heatmap(analysis.overlaps, title, description)
        yield "figure-2-overlap", PaperFigure(description, svg)
    differences = differences_of(rows, analysis.pipelines, analysis.baseline)
    if differences:
        title = f"Figure 3: nDCG@10 against {analysis.baseline}"
        description = f"For each set, nDCG@10 of each pipeline less that of {analysis.baseline}, as bars."
        svg = difference_chart(differences, analysis.pipelines, title, description)
        yield "figure-3-differences", PaperFigure(description, svg)
    for analysed in analysis.sets:
        title = f"Figures 4 and 5: lengths of documents, {analysed.name}"
        quartiles = analysed.relevant_lengths.quartiles
        description = (
            f"Lengths in words of the first ten documents of each pipeline on {analysed.name}, and of those judged "
            "relevant" + (f", whose median is {quartiles[1]}." if quartiles else ".")
        )
        yield (
            f"figures-4-5-lengths-{analysed.name.replace('/', '-')}",
            PaperFigure(description, length_violins(analysed, title, description)),
        )


def overlap_heatmap(overlaps: Sequence[VocabularyOverlap], title: str, description: str) -> str:
    """Draws a cell for each pair of sets. The diagonal is left empty: a set overlaps wholly with itself."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    sets = list(dict.fromkeys(name for pair in overlaps for name in (pair.first, pair.second)))
    highest = max(pair.weighted_jaccard for pair in overlaps) or 1.0
    inches = CELL_INCHES * len(sets) + 0.5 + 0.085 * max(map(len, sets))
    with plotted_svg(max(inches + 0.6, 4.6), inches, title, description) as plot:
        axes = plot.axes
        for pair in overlaps:
            share = pair.weighted_jaccard / highest
            for first, second in ((pair.first, pair.second), (pair.second, pair.first)):
                column, row = sets.index(first), sets.index(second)
                shade = colormaps["Blues"](0.08 + 0.8 * share)
                axes.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=shade, linewidth=0))
                ink = ON_DARK if share > DARK_FROM else ON_LIGHT
                axes.text(column, row, f"{pair.weighted_jaccard:.2f}", ha="center", va="center", color=ink)
        axes.set(xlim=(-0.5, len(sets) - 0.5), ylim=(len(sets) - 0.5, -0.5), aspect="equal")
        axes.set_xticks(range(len(sets)), sets, rotation=40, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(sets)), sets)
        axes.tick_params(length=0)
        axes.spines[:].set_color(LIGHT["grid"])
    return plot.svg


def difference_chart(differences: Differences, pipelines: Sequence[str], title: str, description: str) -> str:
    """Draws a bar for each difference, a group for each set. A pipeline has one colour on every set."""
    bars: list[tuple[str, str, float]] = []  # label of the row, pipeline, value
    for label, group in differences.items():
        bars += [
            (f"{label}\n{name}" if not at else name, name, value) for at, (name, value) in enumerate(group.items())
        ]
    values = [value for *_, value in bars]
    with plotted_svg(8.6, 1.3 + BAR_INCHES * len(bars), title, description) as plot:
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


def length_violins(analysed: SetAnalysis, title: str, description: str) -> str:
    """Draws a violin for the documents judged relevant and for each pipeline, over a logarithmic scale of words."""
    every = {RELEVANT: analysed.relevant_lengths, **analysed.lengths}
    with plotted_svg(8.6, 1.1 + ROW_INCHES * len(every), title, description) as plot:
        axes = plot.axes
        for place, distribution in enumerate(every.values()):
            if distribution.quartiles is None:
                axes.text(0.5, place, "no document", transform=axes.get_yaxis_transform(), ha="center", va="center")
            else:
                _draw_violin(axes, place, distribution, distribution.quartiles)
        axes.set_yticks(range(len(every)), list(every))
        axes.set_ylim(len(every) - 0.4, -0.6)
        ticks = _ticks([words for distribution in every.values() for words, _ in distribution.counts])
        axes.set_xticks([_at(words) for words in ticks], [f"{words:g}" for words in ticks])
        axes.set_xlabel("words of a document, title and text")
        axes.grid(axis="x", color=LIGHT["grid"], linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(LIGHT["soft"])
        axes.tick_params(length=0)
    return plot.svg


def _draw_violin(axes: "Axes", place: int, distribution: LengthDistribution, quartiles: tuple[int, int, int]) -> None:
    import numpy as np

    # Grey is for the documents judged relevant, the colours of the palette for pipelines.
    shade = LIGHT["soft"] if place == 0 else LIGHT[f"c{(place - 1) % COLOURS}"]
    lengths = np.repeat(
        [_at(words) for words, _ in distribution.counts], [documents for _, documents in distribution.counts]
    )
    violin = axes.violinplot(
        [lengths], positions=[place], orientation="horizontal", widths=0.85, showextrema=False, points=200
    )
    for body in violin["bodies"]:  # type: ignore[attr-defined]  # one is a list, typed as an artist
        body.set_facecolor(shade)
        body.set_edgecolor(shade)
        body.set_alpha(0.5)
    low, middle, high = map(_at, quartiles)
    axes.plot([low, high], [place, place], color=shade, linewidth=3, solid_capstyle="butt")
    axes.plot([middle], [place], marker="o", markersize=6, color=shade, markeredgecolor=LIGHT["paper"])


def _ticks(lengths: Sequence[int]) -> list[float]:
    """Returns round lengths within those that are drawn; the longest alone where they are all the same."""
    low, high = max(1.0, min(lengths, default=1)), max(1.0, max(lengths, default=1))
    if low == high:
        return [high]
    from matplotlib.ticker import LogLocator, MaxNLocator

    for locator in (LogLocator(subs=(1.0, 2.0, 5.0) if high < 500 * low else (1.0,)), MaxNLocator(5)):
        ticks = [float(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]
        if len(ticks) > 2:
            break
    return ticks


def _at(words: float) -> float:
    """Returns the place of a length on the scale. One is added, so that a document without words has a place."""
    return math.log10(words + 1)
