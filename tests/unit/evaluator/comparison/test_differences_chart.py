"""The chart of differences, query by query."""

import random

import pytest

from evaluator.comparison.differences_chart import PairDifferences, differences_chart, short_label
from evaluator.metrics.paired_differences import sorted_differences
from evaluator.metrics.verdict import PairedComparison, ScoredPair, compare_pairs
from tests.support.svg_reading import texts

pytestmark = pytest.mark.usefixtures("laid_out")


def compared(second: str, values: list[float]) -> PairedComparison:
    by_query = {f"q{number}": value for number, value in enumerate(values)}
    (verdict,) = compare_pairs([ScoredPair("bm25", second, dict.fromkeys(by_query, 0.0), by_query)], "nDCG@10")
    return verdict


@pytest.mark.parametrize(
    ("label", "short"),
    [
        ("bm25", "bm25"),
        ("20261128T152520444Z-demo-651fbcfb:bm25", "bm25 (11-28 15:25:20)"),
        ("other:bm25", "other:bm25"),
    ],
)
def test_the_label_of_a_run_is_shortened_to_its_time(label: str, short: str) -> None:
    assert short_label(label) == short


def test_every_pair_has_a_panel_with_its_name_and_its_counts() -> None:
    values = [0.5, -0.25, 0.0, 0.0]
    pairs = [PairDifferences(compared(name, values), sorted_differences(values)) for name in ("dense", "hybrid-rerank")]
    shown = texts(differences_chart(pairs))
    assert {"dense against bm25", "hybrid-rerank against bm25"} <= set(shown)
    assert shown.count("1 better, 2 tied, 1 worse; mean +0.0625") == 2


def test_a_pair_that_ties_everywhere_and_one_of_a_single_query_are_drawn() -> None:
    tied = PairDifferences(compared("dense", [0.0, 0.0]), (0.0, 0.0))
    single = PairDifferences(compared("splade", [0.5]), (0.5,))
    assert {"dense against bm25", "splade against bm25"} <= set(texts(differences_chart([tied, single])))


def test_without_differences_there_is_no_chart() -> None:
    assert differences_chart([PairDifferences(compared("dense", [0.5]), ())]) is None


def test_eight_pairs_of_five_thousand_queries_stay_below_125_kilobytes() -> None:
    dice = random.Random(7)
    values = [dice.gauss(0.02, 0.3) for _ in range(5_000)]
    pair = compared("dense", values[:50])
    svg = differences_chart([PairDifferences(pair, sorted_differences(values))] * 8)
    assert svg is not None
    assert len(svg) < 125_000


def test_of_many_differences_the_quantiles_are_kept_with_both_ends() -> None:
    found = sorted_differences([float(value) for value in range(1_001)][::-1])
    assert (len(found), found[0], found[100], found[-1]) == (201, 0.0, 500.0, 1_000.0)
    assert sorted_differences([0.5, -0.5]) == (-0.5, 0.5)
