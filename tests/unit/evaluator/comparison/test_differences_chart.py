"""The chart of differences, query by query."""

import random
from xml.etree import ElementTree

from evaluator.comparison.differences_chart import PairDifferences, differences_chart
from evaluator.comparison.paired_tests import sorted_differences
from evaluator.comparison.verdict import PairedComparison, ScoredPair, compare_pairs
from evaluator.pages.inline_markup import chart_html
from tests.support.svg_reading import cut_texts, elements, texts


def compared(second: str, values: list[float]) -> PairedComparison:
    (found,) = compare_pairs([ScoredPair("bm25", second, [0.0] * len(values), values)], "nDCG@10", 7)
    return found


def height(svg: str | None) -> float:
    return float(ElementTree.fromstring(str(svg)).attrib["height"])


def test_a_panel_names_its_pair_and_counts_what_was_better_tied_and_worse() -> None:
    values = [0.5, -0.25, 0.0, 0.0]
    svg = differences_chart([PairDifferences(compared("dense", values), sorted_differences(values))])
    assert {"dense against bm25", "1 better, 2 tied, 1 worse; mean +0.0625"} <= set(texts(svg))
    assert (elements(svg, "b1"), elements(svg, "b2")) == (1, 1)  # an area of losses, one of gains


def test_a_pair_that_ties_everywhere_has_no_area() -> None:
    svg = differences_chart([PairDifferences(compared("dense", [0.0, 0.0]), (0.0, 0.0))])
    assert (elements(svg, "b1"), elements(svg, "b2")) == (0, 0)


def test_a_pair_of_a_single_query_is_drawn() -> None:
    assert elements(differences_chart([PairDifferences(compared("dense", [0.5]), (0.5,))]), "b2") == 1


def test_a_single_pair_has_a_tall_panel_and_several_share_one_scale() -> None:
    pair = PairDifferences(compared("dense", [0.5, -0.25]), (-0.25, 0.5))
    one, two = (differences_chart([pair] * number) for number in (1, 2))
    assert height(one) > height(two) > 0
    assert [any("All panels" in text for text in texts(svg)) for svg in (one, two)] == [False, True]


def test_a_telephone_shows_a_single_pair_whole() -> None:
    svg = differences_chart([PairDifferences(compared("hybrid-rerank", [0.5, -0.25]), (-0.25, 0.5))])
    assert 'class="chart narrow"' in chart_html(str(svg), "differences.svg")
    assert cut_texts(svg) == []


def test_without_differences_there_is_no_chart() -> None:
    assert differences_chart([PairDifferences(compared("dense", [0.5]), ())]) is None


def test_eight_pairs_of_five_thousand_queries_stay_below_100_kilobytes() -> None:
    dice = random.Random(7)
    values = [dice.gauss(0.02, 0.3) for _ in range(5_000)]
    pair = compared("dense", values[:50])
    svg = differences_chart([PairDifferences(pair, sorted_differences(values))] * 8)
    assert svg is not None
    assert len(svg) < 100_000


def test_of_many_differences_the_quantiles_are_kept_with_both_ends() -> None:
    found = sorted_differences([float(value) for value in range(1_001)][::-1])
    assert (len(found), found[0], found[100], found[-1]) == (201, 0.0, 500.0, 1_000.0)
    assert sorted_differences([0.5, -0.5]) == (-0.5, 0.5)
