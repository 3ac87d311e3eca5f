"""Metrics against cases worked by hand, and by the properties that any of them must have."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import DEFAULT_METRICS, FAMILIES, MetricFamily
from evaluator.metrics.quality import means, measure
from tests.support.rankings import adversarial_cases, random_cases

# Every row of the table, at cutoffs above, at and below the length of most rankings.
EVERY_METRIC = sorted(
    {
        form.replace("@k", f"@{k}").replace(".p", f".{p:02}")
        for form in FAMILIES
        for k, p in ((1, 1), (3, 50), (10, 95), (1000, 99))
    }
)
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


def test_the_mean_of_beirs_holes_is_what_beir_computes() -> None:
    for many, rankings in random_cases():
        judgments = dict(list(many.items())[10:14])  # few, so that there are holes
        annotated = {name for grades in judgments.values() for name in grades}
        holes = [sum(name not in annotated for name in rankings[query][:10]) for query in judgments]
        assert any(holes)
        ours = means(measure(judgments, rankings, list(judgments), ("hole_beir@10",)))
        assert ours == {"hole_beir@10": pytest.approx(sum(holes) / 10 / len(judgments))}


def test_map_says_its_depth_where_its_name_has_one() -> None:
    figures = one({"a": 1, "b": 1}, ["a", "x", "y", "b"], "MAP", "MAP@3", "MAP@10")
    assert figures["MAP@3"] == pytest.approx(1 / 2)
    assert figures["MAP"] == figures["MAP@10"] == pytest.approx((1 + 2 / 4) / 2)


def test_capped_recall_divides_by_no_more_than_the_cutoff() -> None:
    grades = {f"d{number}": 1 for number in range(200)}
    figures = one(grades, [f"d{number}" for number in range(150)])
    assert (figures["Recall@100"], figures["R_cap@100"]) == (pytest.approx(0.5), pytest.approx(1.0))


def test_the_eleventh_hit_is_too_late_for_a_cutoff_of_ten() -> None:
    figures = one({"a": 1}, [f"x{number}" for number in range(10)] + ["a"])
    assert (figures["nDCG@10"], figures["MRR@10"], figures["P@10"]) == (0, 0, 0)
    assert figures["MAP"] == pytest.approx(1 / 11)


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


def test_every_metric_is_between_0_and_1_on_any_ranking() -> None:
    cases = [*random_cases(), *((judgments, names(scored)) for judgments, scored in adversarial_cases().values())]
    for judgments, rankings in cases:
        for metric, values in measure(judgments, rankings, list(judgments), EVERY_METRIC).items():
            assert all(value is None or 0 <= value <= 1 for value in values.values()), metric


def test_a_perfect_order_has_1_in_every_metric_that_can_reach_it() -> None:
    for judgments, _ in random_cases():
        perfect = {query: sorted(grades, key=grades.__getitem__, reverse=True) for query, grades in judgments.items()}
        figures = measure(judgments, perfect, list(judgments), AT_MOST_ONE_OF_IDEAL)
        answerable = [query for query, grades in judgments.items() if any(grades.values())]
        for metric, values in figures.items():
            assert all(values[query] == pytest.approx(1) for query in answerable), metric


def names(scored: dict[str, list[tuple[str, float]]]) -> dict[str, list[str]]:
    return {query: [name for name, _ in hits] for query, hits in scored.items()}


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


def test_other_names_for_the_same_documents_change_nothing() -> None:
    for judgments, rankings in random_cases():
        known = sorted({name for ids in (*judgments.values(), *rankings.values()) for name in ids})
        fresh = random.Random(1).sample([f"{n:x}" for n in range(10**6, 10**6 + len(known))], len(known))
        other = dict(zip(known, fresh, strict=True))
        renamed = measure(
            {query: {other[name]: grade for name, grade in grades.items()} for query, grades in judgments.items()},
            {query: [other[name] for name in ranking] for query, ranking in rankings.items()},
            list(judgments),
            EVERY_METRIC,
        )
        assert renamed == measure(judgments, rankings, list(judgments), EVERY_METRIC)


def test_a_metric_is_added_with_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(query: object, ranking: object, k: int) -> float:
        return k / 100

    monkeypatch.setitem(FAMILIES, "first@k", MetricFamily("a hundredth of k", first))
    assert one({"a": 1}, ["a", "b"], "first@7") == {"first@7": 0.07}
