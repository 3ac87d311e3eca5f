"""Draws the figures of an analysis as SVG: which there are, and what each is called."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evaluator.analyses.analysis_report import Analysis
from evaluator.analyses.averages import SetRow
from evaluator.analyses.difference_chart import difference_chart, differences_of
from evaluator.analyses.length_violins import length_violins
from evaluator.analyses.overlap_heatmap import overlap_heatmap


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
    for one in analysis.sets:
        title = f"Figures 4 and 5: lengths of documents, {one.name}"
        found = one.relevant_lengths.quartiles
        description = (
            f"Lengths in words of the first ten documents of each pipeline on {one.name}, and of those judged relevant"
            + (f", whose median is {found[1]}." if found else ".")
        )
        yield (
            f"figures-4-5-lengths-{one.name.replace('/', '-')}",
            PaperFigure(description, length_violins(one, title, description)),
        )
