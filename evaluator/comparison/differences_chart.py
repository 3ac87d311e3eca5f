"""Draws how a metric of each query differs between two systems: a panel per pair, queries from loss to gain. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evaluator.metrics.verdict import PairedComparison
from evaluator.pages.plotted_svg import LIGHT, WIDTH, plotted_svg

PANEL_INCHES = 1.55
LOSS, GAIN = LIGHT["b1"], LIGHT["b2"]


@dataclass(frozen=True, slots=True)
class PairDifferences:
    """A pair, and the differences of its queries in ascending order, or quantiles of them at even steps."""

    compared: PairedComparison
    ascending: Sequence[float]


def differences_chart(pairs: Sequence[PairDifferences]) -> str | None:
    """Draws a panel per pair, all on one scale. None without a pair that has differences.

    A panel is one area above 0 (gains) and one below it (losses), whatever the number of queries.
    """
    pairs = [pair for pair in pairs if pair.ascending]
    if not pairs:
        return None
    title = f"Differences in {pairs[0].compared.metric}, query by query"
    described = "; ".join(f"{_name(pair.compared)}: {_counts(pair.compared)}" for pair in pairs)
    reach = 1.05 * max(0.05, *(abs(end) for pair in pairs for end in (pair.ascending[0], pair.ascending[-1])))
    with plotted_svg(WIDTH, 1.0 + PANEL_INCHES * len(pairs), title, described, len(pairs)) as plot:
        for axes, pair in zip(plot.panels, pairs, strict=True):
            # A single query has no width: it is drawn over the whole of its panel.
            values = [*pair.ascending] * (2 if len(pair.ascending) == 1 else 1)
            places = range(len(values))
            for colour, signed in ((LOSS, [min(0.0, at) for at in values]), (GAIN, [max(0.0, at) for at in values])):
                if any(signed):
                    axes.fill_between(places, signed, color=colour, linewidth=0)
            axes.axhline(0.0, color=LIGHT["soft"], linewidth=0.8)
            axes.axhline(pair.compared.difference, color=LIGHT["soft"], linestyle="--", linewidth=1)
            axes.set(xlim=(0, len(values) - 1), ylim=(-reach, reach), xticks=())
            axes.set_title(f"{_name(pair.compared)}\n{_counts(pair.compared)}")
            axes.grid(axis="y")
        scale = " All panels: one scale." if len(pairs) > 1 else ""
        note = f"Queries from the greatest loss to the greatest gain.\nFlat at 0: ties. Dashed: the mean.{scale}"
        plot.panels[-1].set_xlabel(note)
    return plot.svg


def _name(compared: PairedComparison) -> str:
    return f"{short_label(compared.second)} against {short_label(compared.first)}"


def short_label(label: str) -> str:
    """Returns a pipeline with the day and time of its run, where its label is RUN:PIPELINE; else the label."""
    begun = re.match(r"\d{4}(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\d*Z-[^:]*:(.+)", label)
    return label if begun is None else "{5} ({0}-{1} {2}:{3}:{4})".format(*begun.groups())


def _counts(compared: PairedComparison) -> str:
    counts = f"{compared.wins} better, {compared.ties} tied, {compared.losses} worse"
    return f"{counts}; mean {compared.difference:+z.4f}"
