"""Metrics against cases worked by hand, and by the properties that any of them must have."""

import math
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import DEFAULT_METRICS
from evaluator.metrics.quality import means, measure
from tests.support.rankings import random_cases

AT_MOST_ONE_OF_IDEAL = ("nDCG@10", "nDCG_exp@10", "MRR@10", "MAP", "R_cap@100", "success@10", "judged@10", "bpref")


def one(grades: dict[str, int], ranking: list[str], *metrics: str) -> dict[str, float | None]:
    found = measure({"q": grades}, {"q": ranking}, ["q"], metrics or DEFAULT_METRICS)
    return {metric: values["q"] for metric, values in found.items()}


def test_ndcg_has_linear_gain_and_a_logarithmic_discount() -> None:
    # (3/log2(2) + 1/log2(3) + 2/log2(4)) / (3/log2(2) + 2/log2(3) + 1/log2(4)); 2^rel - 1 would give another figure.
    expected = (3 + 1 / math.log2(3) + 2 / 2) / (3 + 2 / math.log2(3) + 1 / 2)
    assert one({"a": 3, "b": 1, "c": 2}, ["a", "b", "c"])["nDCG@10"] == pytest.approx(expected)


def test_exponential_gain_has_a_name_of_its_own() -> None:
    expected = (7 + 1 / math.log2(3) + 3 / 2) / (7 + 3 / math.log2(3) + 1 / 2)
    assert one({"a": 3, "b": 1, "c": 2}, ["a", "b", "c"], "nDCG_exp@10") == {"nDCG_exp@10": pytest.approx(expected)}


def test_the_other_metrics_of_a_case_worked_by_hand() -> None:
    # Relevant at ranks 2 and 4, a third one not found; "n" was judged not relevant.
    figures = one({"a": 1, "b": 2, "c": 1, "n": 0}, ["x", "a", "n", "b"])
    assert figures["MRR@10"] == pytest.approx(1 / 2)
    assert figures["MAP"] == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert figures["Recall@100"] == pytest.approx(2 / 3)
    assert figures["P@10"] == pytest.approx(2 / 10)
    assert figures["judged@10"] == pytest.approx(3 / 4)


def test_the_metrics_for_sparse_judgments_of_a_case_worked_by_hand() -> None:
    figures = one(
        {"a": 1, "b": 2, "c": 1, "n": 0, "m": 0}, ["x", "a", "n", "b"], "bpref", "RBP", "RBP.50", "hole@10", "success@1"
    )
    # Of R = 3 and N = 2: none above "a", one above "b", "c" not found.
    assert figures["bpref"] == pytest.approx((1 + 1 / 2) / 3)
    assert figures["RBP"] == pytest.approx(0.2 * (0.8 + 0.8**3))
    assert figures["RBP.50"] == pytest.approx(1 / 4 + 1 / 16)
    assert (figures["hole@10"], figures["success@1"]) == (pytest.approx(1 / 4), 0)


def test_the_holes_of_beir_are_documents_that_no_query_has_judged_over_the_cutoff() -> None:
    judgments = {"q": {"a": 1}, "other": {"b": 0}}
    figures = measure(judgments, {"q": ["a", "b", "x"]}, ["q"], ("hole@10", "hole_beir@10"))
    assert figures == {"hole@10": {"q": pytest.approx(2 / 3)}, "hole_beir@10": {"q": pytest.approx(1 / 10)}}


def test_capped_recall_divides_by_no_more_than_the_cutoff() -> None:
    grades = {f"d{number}": 1 for number in range(200)}
    figures = one(grades, [f"d{number}" for number in range(150)])
    assert (figures["Recall@100"], figures["R_cap@100"]) == (pytest.approx(0.5), pytest.approx(1.0))


def test_lost_queries_and_queries_without_positives_count_as_zero_and_strangers_do_not_count() -> None:
    judgments = {"found": {"a": 1}, "lost": {"a": 1}, "empty": {"a": 1}, "hopeless": {"a": 0}}
    rankings = {"found": ["a"], "empty": [], "hopeless": ["a"], "stranger": ["a"]}
    figures = measure(judgments, rankings, list(judgments))
    assert figures["nDCG@10"] == {"found": 1.0, "lost": 0.0, "empty": 0.0, "hopeless": 0.0}
    assert means(figures)["MRR@10"] == pytest.approx(1 / 4)


def test_a_query_that_shows_nothing_has_no_judged_share_and_is_not_in_its_mean() -> None:
    judgments = {"found": {"a": 1}, "lost": {"a": 1}, "empty": {"a": 1}}
    figures = measure(judgments, {"found": ["a"], "empty": []}, list(judgments), ("judged@10", "hole@10"))
    assert figures["judged@10"] == {"found": 1.0, "lost": None, "empty": None}
    assert means(figures) == {"judged@10": 1.0, "hole@10": 0.0}
    assert means(measure(judgments, {}, list(judgments), ("judged@10",))) == {"judged@10": None}


def test_of_no_query_there_is_no_figure() -> None:
    assert measure({"q": {"a": 1}}, {"q": ["a"]}, [], ("nDCG@10", "bpref")) == {"nDCG@10": {}, "bpref": {}}


def test_a_negative_judgment_counts_as_none() -> None:
    assert one({"a": 1, "spam": -1}, ["spam", "a"], "judged@10", "bpref") == {"judged@10": 1 / 2, "bpref": 1.0}


def test_a_document_twice_in_a_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        one({"a": 1}, ["a", "a"])


def test_a_grade_whose_exponential_gain_no_float_holds_is_refused_for_that_metric_alone() -> None:
    with pytest.raises(EvaluationError, match=r"nDCG_exp@10: .*1000.*2000"):
        one({"a": 2000}, ["a"], "nDCG_exp@10")
    assert one({"a": 2000, "b": 1000}, ["a", "b"], "nDCG@10", "RBP.50") == {"nDCG@10": 1.0, "RBP.50": 0.75}
    assert one({"a": 1000, "b": 1000}, ["a", "b"], "nDCG_exp@10") == {"nDCG_exp@10": 1.0}


def test_a_perfect_order_has_1_in_every_metric_that_can_reach_it() -> None:
    for judgments, _ in random_cases():
        perfect = {query: sorted(grades, key=grades.__getitem__, reverse=True) for query, grades in judgments.items()}
        figures = measure(judgments, perfect, list(judgments), AT_MOST_ONE_OF_IDEAL)
        answerable = [query for query, grades in judgments.items() if any(grades.values())]
        for metric, values in figures.items():
            assert all(values[query] == pytest.approx(1) for query in answerable), metric


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1),
    st.lists(st.sampled_from("abcdefgh"), unique=True),
)
def test_moving_a_better_document_up_never_lowers_ndcg(grades: dict[str, int], ranking: list[str]) -> None:
    before = one(grades, ranking, "nDCG@10")["nDCG@10"] or 0.0
    assert 0 <= before <= 1
    for at in range(1, len(ranking)):
        above, below = ranking[at - 1], ranking[at]
        if grades.get(below, 0) > grades.get(above, 0):
            swapped = [*ranking[: at - 1], below, above, *ranking[at + 1 :]]
            assert (one(grades, swapped, "nDCG@10")["nDCG@10"] or 0.0) > before


def test_threads_may_measure_at_the_same_time() -> None:
    # In a process of its own, which numba ends otherwise.
    program = """
from concurrent.futures import ThreadPoolExecutor
from evaluator.metrics.quality import measure
judgments = {f"q{number}": {"d": 1} for number in range(200)}
rankings = dict.fromkeys(judgments, ["a", "d"])
with ThreadPoolExecutor(4) as threads:
    first, *others = threads.map(lambda _: measure(judgments, rankings, list(judgments), ["MRR@10"]), range(20))
assert set(first["MRR@10"].values()) == {0.5} and all(other == first for other in others)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
