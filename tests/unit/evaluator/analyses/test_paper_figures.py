"""The figures are the same bytes each time, hold their texts as texts, and are readable on light and dark paper."""

from xml.etree import ElementTree

import pytest

from evaluator.analyses.analysis_report import Analysis, SetAnalysis, VocabularyOverlap
from evaluator.analyses.averages import common_rows, ndcg_at_10, set_rows, summarise
from evaluator.analyses.drawing import PaperFigure, paper_figures
from evaluator.datasets.catalogue import load_catalogue
from tests.support.analysed_sets import analysed_set, lengths
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")

SVG = "{http://www.w3.org/2000/svg}"
CATALOGUE = load_catalogue()


def drawn(*sets: SetAnalysis) -> dict[str, PaperFigure]:
    pipelines = tuple(dict.fromkeys(name for analysed in sets for name in analysed.pipelines))
    rows = set_rows(sets, CATALOGUE)
    names = [analysed.name for analysed in sets]
    analysis = Analysis(
        baseline="bm25",
        pipelines=pipelines,
        sets=sets,
        common_sets=tuple(row.name for row in common_rows(rows, pipelines, ndcg_at_10)),
        summaries=summarise(rows, pipelines, "bm25"),
        overlaps=tuple(
            VocabularyOverlap(first=first, second=second, weighted_jaccard=0.31)
            for at, first in enumerate(names)
            for second in names[at + 1 :]
        ),
        systems={},
        published={},
        notes=(),
    )
    return paper_figures(analysis, rows)


@pytest.fixture(scope="module")
def figures() -> dict[str, PaperFigure]:
    return drawn(analysed_set("shop", bm25=0.4, dense=0.55), analysed_set("depot", bm25=0.5, dense=0.45))


def test_every_figure_has_a_title_and_a_description_for_screen_readers(figures: dict[str, PaperFigure]) -> None:
    for figure in figures.values():
        root = ElementTree.fromstring(figure.svg)
        assert root.get("role") == "img"
        assert [root[0].tag, root[1].tag] == [f"{SVG}title", f"{SVG}desc"]
        assert str(root[0].text).startswith("Figure")
        assert root[1].text == figure.description


def test_texts_are_texts_and_no_outlines(figures: dict[str, PaperFigure]) -> None:
    assert texts(figures["figure-2-overlap"].svg).count("0.31") == 2
    assert {"shop", "dense", "+0.1500", "-0.0500"} <= set(texts(figures["figure-3-differences"].svg))
    assert {"judged relevant", "bm25", "dense", "10", "100"} <= set(texts(figures["figures-4-5-lengths-shop"].svg))


def test_no_figure_holds_the_time_of_its_making_and_each_changes_its_colours_on_dark_paper(
    figures: dict[str, PaperFigure],
) -> None:
    for figure in figures.values():
        assert "dc:date" not in figure.svg
        assert "prefers-color-scheme:dark" in figure.svg


def test_one_set_has_no_overlap_and_one_pipeline_no_difference() -> None:
    assert list(drawn(analysed_set("shop", bm25=0.4))) == ["figures-4-5-lengths-shop"]


def test_lengths_that_are_all_the_same_and_none_at_all_are_drawn() -> None:
    analysed = analysed_set("shop", bm25=0.4, dense=0.3)
    analysed = analysed.model_copy(update={"lengths": {"bm25": lengths(7, 7, 7), "dense": lengths()}})
    assert "no document" in texts(drawn(analysed)["figures-4-5-lengths-shop"].svg)
