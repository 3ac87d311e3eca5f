"""Draws how a metric of each query differs between two systems: a panel a pair, queries from loss to gain. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.comparison.verdict import PairedComparison
from evaluator.pages.svg_chart import Drawing, Scale, text_width

WIDTH, NARROW = 860.0, 480.0  # of two columns; of one, which a telephone shows whole
SINGLE, ONE_OF_MANY = 190.0, 96.0  # height of the plotted area of a panel
AROUND = 74.0  # of each panel, for its title and the gap to the next one
GUTTER, MARGIN, AXIS = 28.0, 16.0, 44.0  # between panels, at the edges, for the labels left of a panel
LOSS, GAIN = "b1", "b2"


@dataclass(frozen=True, slots=True)
class PairDifferences:
    """A pair, and the differences of its queries in ascending order, or quantiles of them at even steps."""

    compared: PairedComparison
    ascending: Sequence[float]


def differences_chart(pairs: Sequence[PairDifferences]) -> str | None:
    """Draws a panel a pair, all on one scale. None without a pair that has differences.

    A panel is one area above 0 (gains) and one below it (losses), whatever the number of queries.
    """
    shown = [pair for pair in pairs if pair.ascending]
    if not shown:
        return None
    columns = 1 if len(shown) == 1 else 2
    rows = -(-len(shown) // columns)
    panel = SINGLE if len(shown) == 1 else ONE_OF_MANY
    top, row = 44.0, panel + AROUND
    metric = shown[0].compared.metric
    width = NARROW if columns == 1 else WIDTH
    drawing = Drawing(
        width,
        top + rows * row + 42,
        f"Differences in {metric}, query by query",
        "; ".join(_described(pair.compared) for pair in shown),
    )
    reach = max(0.05, *(abs(value) for pair in shown for value in (pair.ascending[0], pair.ascending[-1])))
    wide = (width - 2 * MARGIN - (columns - 1) * GUTTER) / columns
    for number, pair in enumerate(shown):
        left = MARGIN + (number % columns) * (wide + GUTTER)
        _panel(drawing, pair, left, top + (number // columns) * row, (wide, panel), reach)
    note = "A flat stretch at 0 are ties. Dashed: the mean." + (" All panels: one scale." if len(shown) > 1 else "")
    drawing.text(MARGIN, top + rows * row + 10, "Queries from the greatest loss to the greatest gain.", "soft")
    drawing.text(MARGIN, top + rows * row + 28, note, "soft")
    return drawing.svg()


def _panel(
    drawing: Drawing, pair: PairDifferences, left: float, top: float, size: tuple[float, float], reach: float
) -> None:
    (wide, high), compared = size, pair.compared
    drawing.text(left, top + 14, _fitting(f"{compared.second} against {compared.first}", wide))
    counts = f"{compared.wins} better, {compared.ties} tied, {compared.losses} worse; mean {compared.difference:+z.4f}"
    drawing.text(left, top + 31, _fitting(counts, wide), "soft")
    y = Scale(-reach, reach, top + 42 + high, top + 42)
    right = left + wide
    drawing.vertical_axis(y, left + AXIS, right, [(at, f"{at:+.2g}" if at else "0") for at in (-reach, 0.0, reach)])
    x = Scale(0.0, 1.0, left + AXIS, right)
    zero, last = y.at(0.0), max(1, len(pair.ascending) - 1)
    for look, signed in ((LOSS, [min(0.0, one) for one in pair.ascending]),
                         (GAIN, [max(0.0, one) for one in pair.ascending])):  # fmt: skip
        if any(signed):
            # A single query has no width: it is drawn over the whole of its panel.
            places = [(x.at(at / last), y.at(one)) for at, one in enumerate(signed)]
            places = places if len(places) > 1 else [places[0], (right, places[0][1])]
            drawing.area([(places[0][0], zero), *_corners(places), (places[-1][0], zero)], look)
    drawing.line([(left + AXIS, zero), (right, zero)], "axis")
    mean = y.at(compared.difference)
    drawing.line([(left + AXIS, mean), (right, mean)], "axis dashed")


def _corners(places: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Leaves out the points between two of the same height, which are most of them where queries tie."""
    inner = [
        place
        for before, place, after in zip(places, places[1:], places[2:], strict=False)
        if not before[1] == place[1] == after[1]
    ]
    return [places[0], *inner, places[-1]]


def _fitting(text: str, wide: float) -> str:
    if text_width(text) <= wide:
        return text
    return text[: max(1, int(wide / text_width("x")) - 1)] + "…"


def _described(compared: PairedComparison) -> str:
    return (
        f"{compared.second} against {compared.first}: {compared.wins} queries better, {compared.ties} tied, "
        f"{compared.losses} worse, mean difference {compared.difference:+z.4f}"
    )
