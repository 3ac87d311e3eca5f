"""Metrics against cases worked by hand, against trec_eval, and by the properties that any of them must have."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.quality import OUR_METRICS, RANX_NAMES, means, measure
from evaluator.trec_runs import read_run, run_lines


def one(grades: dict[str, int], ranking: list[str]) -> dict[str, float]:
    return {metric: values["q"] for metric, values in measure({"q": grades}, {"q": ranking}, ["q"]).items()}


def test_ndcg_has_linear_gain_and_a_logarithmic_discount() -> None:
    # (3/log2(2) + 1/log2(3) + 2/log2(4)) / (3/log2(2) + 2/log2(3) + 1/log2(4)); 2^rel - 1 would give another figure.
    expected = (3 + 1 / math.log2(3) + 2 / 2) / (3 + 2 / math.log2(3) + 1 / 2)
    assert one({"a": 3, "b": 1, "c": 2}, ["a", "b", "c"])["nDCG@10"] == pytest.approx(expected)


def test_the_other_metrics_of_a_case_worked_by_hand() -> None:
    # Relevant at ranks 2 and 4, a third one not found; "n" was judged not relevant.
    figures = one({"a": 1, "b": 2, "c": 1, "n": 0}, ["x", "a", "n", "b"])
    assert figures["MRR@10"] == pytest.approx(1 / 2)
    assert figures["MAP"] == pytest.approx((1 / 2 + 2 / 4) / 3)
    assert figures["Recall@100"] == pytest.approx(2 / 3)
    assert figures["P@10"] == pytest.approx(2 / 10)
    assert figures["judged@10"] == pytest.approx(3 / 4)


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


def test_a_document_twice_in_a_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        one({"a": 1}, ["a", "a"])


def cases() -> Iterator[tuple[dict[str, dict[str, int]], dict[str, list[str]]]]:
    """Seeded random collections: graded, some queries without hits or positives, ids of every length."""
    for seed in range(4):
        dice = random.Random(seed)
        names = [f"{'d' * dice.randint(1, 9)}{number}" for number in range(300)]
        queries = [f"q{number}" for number in range(40)]
        judgments = {
            query: {name: dice.choice([0, 0, 1, 1, 2, 3]) for name in dice.sample(names, dice.randint(1, 150))}
            for query in queries
        }
        yield judgments, {query: dice.sample(names, dice.choice([0, 1, 5, 50, 200])) for query in queries}


def test_every_metric_is_between_0_and_1_and_a_perfect_order_has_1() -> None:
    for judgments, rankings in cases():
        for values in measure(judgments, rankings, list(judgments)).values():
            assert all(0 <= value <= 1 for value in values.values())
        perfect = {query: sorted(grades, key=lambda name, g=grades: -g[name]) for query, grades in judgments.items()}
        figures = measure(judgments, perfect, list(judgments))
        answerable = [query for query, grades in judgments.items() if any(grades.values())]
        for metric in ("nDCG@10", "MRR@10", "MAP", "R_cap@100", "judged@10"):
            assert all(figures[metric][query] == pytest.approx(1) for query in answerable)


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 3), min_size=1),
    st.lists(st.sampled_from("abcdefgh"), unique=True),
)
def test_moving_a_better_document_up_never_lowers_ndcg(grades: dict[str, int], ranking: list[str]) -> None:
    before = one(grades, ranking)["nDCG@10"]
    assert 0 <= before <= 1
    for at in range(1, len(ranking)):
        above, below = ranking[at - 1], ranking[at]
        if grades.get(below, 0) > grades.get(above, 0):
            swapped = [*ranking[: at - 1], below, above, *ranking[at + 1 :]]
            assert one(grades, swapped)["nDCG@10"] > before


def test_other_names_for_the_same_documents_change_nothing() -> None:
    for judgments, rankings in cases():
        names = sorted({name for ids in (*judgments.values(), *rankings.values()) for name in ids})
        other = dict(zip(names, random.Random(1).sample([f"{n:x}" for n in range(10**6, 10**6 + len(names))], len(names)), strict=True))  # noqa: E501  # fmt: skip
        renamed = measure(
            {query: {other[name]: grade for name, grade in grades.items()} for query, grades in judgments.items()},
            {query: [other[name] for name in ranking] for query, ranking in rankings.items()},
            list(judgments),
        )
        assert renamed == measure(judgments, rankings, list(judgments))


def test_figures_equal_those_of_trec_eval_on_the_exported_run_files(tmp_path: Path) -> None:
    theirs = {"ndcg_cut.10": "nDCG@10", "map": "MAP", "recall.100": "Recall@100", "P.10": "P@10"}
    for judgments, rankings in cases():
        path, cut = tmp_path / "arm.trec", tmp_path / "arm.10.trec"
        path.write_text("".join(run_lines(query, ranking, "arm") for query, ranking in rankings.items()))
        cut.write_text("".join(run_lines(query, ranking[:10], "arm") for query, ranking in rankings.items()))
        ours = means(measure(judgments, read_run(path), list(judgments)))
        expected = trec_eval(judgments, path, theirs) | trec_eval(judgments, cut, {"recip_rank": "MRR@10"})
        for metric, value in expected.items():
            assert ours[metric] == pytest.approx(value, abs=5e-5), metric
        assert set(ours) == {*RANX_NAMES, *OUR_METRICS}


def trec_eval(judgments: dict[str, dict[str, int]], path: Path, measures: dict[str, str]) -> dict[str, float]:
    with path.open() as file:
        run = pytrec_eval.parse_run(file)
    found = pytrec_eval.RelevanceEvaluator(judgments, set(measures)).evaluate(run)
    # trec_eval leaves out queries without hits unless asked (-c): the denominator is all judged queries.
    return {
        ours: sum(values[theirs.replace(".", "_")] for values in found.values()) / len(judgments)
        for theirs, ours in measures.items()
    }


def test_a_metric_is_added_with_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OUR_METRICS, "first@1", lambda grades, ranking: float(grades.get(ranking[0], 0) > 0))
    assert one({"a": 1}, ["a", "b"])["first@1"] == 1.0
    assert one({"a": 1}, ["b", "a"])["first@1"] == 0.0
