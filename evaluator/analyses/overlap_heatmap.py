"""Draws the overlap of the vocabularies of sets as a heatmap (BEIR paper, figure 2)."""

from collections.abc import Sequence

from evaluator.analyses.analysis_report import VocabularyOverlap
from evaluator.analyses.plotted_svg import plotted_svg
from evaluator.pages.svg_chart import LIGHT

CELL_INCHES = 0.62
# Texts on cells, which have the same colour on light and dark paper; neither is a colour of the palette.
ON_LIGHT, ON_DARK = "#111111", "#fafafa"
DARK_FROM = 0.68  # of the scale


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
