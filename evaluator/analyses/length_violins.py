"""Draws how long the documents are that pipelines prefer, beside those judged relevant (BEIR paper, figures 4, 5)."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from evaluator.analyses.analysis_report import LengthDistribution, SetAnalysis
from evaluator.analyses.plotted_svg import plotted_svg
from evaluator.pages.svg_chart import COLOURS, LIGHT, Scale

if TYPE_CHECKING:  # matplotlib takes a second to import
    from matplotlib.axes import Axes

RELEVANT = "judged relevant"
ROW_INCHES = 0.55


def length_violins(analysed: SetAnalysis, title: str, description: str) -> str:
    """Draws a violin for the documents judged relevant and for each pipeline, over a logarithmic scale of words."""
    every = {RELEVANT: analysed.relevant_lengths, **analysed.lengths}
    with plotted_svg(8.6, 1.1 + ROW_INCHES * len(every), title, description) as plot:
        axes = plot.axes
        for place, one in enumerate(every.values()):
            if one.quartiles is None:
                axes.text(0.5, place, "no document", transform=axes.get_yaxis_transform(), ha="center", va="center")
            else:
                _draw_violin(axes, place, one, one.quartiles)
        axes.set_yticks(range(len(every)), list(every))
        axes.set_ylim(len(every) - 0.4, -0.6)
        ticks = _ticks([words for one in every.values() for words, _ in one.counts])
        axes.set_xticks([_at(words) for words in ticks], [f"{words:g}" for words in ticks])
        axes.set_xlabel("words of a document, title and text")
        axes.grid(axis="x", color=LIGHT["grid"], linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.spines["bottom"].set_color(LIGHT["soft"])
        axes.tick_params(length=0)
    return plot.svg


def _draw_violin(axes: "Axes", place: int, one: LengthDistribution, quartiles: tuple[int, int, int]) -> None:
    import numpy as np

    # Grey is for the documents judged relevant, the colours of the palette for pipelines.
    shade = LIGHT["soft"] if place == 0 else LIGHT[f"c{(place - 1) % COLOURS}"]
    lengths = np.repeat([_at(words) for words, _ in one.counts], [documents for _, documents in one.counts])
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
    ticks = Scale(low, high, 0.0, 1.0, logarithmic=True).ticks()
    return ticks if len(ticks) > 2 else Scale(low, high, 0.0, 1.0).ticks()


def _at(words: float) -> float:
    """Returns the place of a length on the scale. One is added, so that a document without words has a place."""
    return math.log10(words + 1)
