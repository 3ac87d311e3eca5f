"""Differences of a pool are those of nDCG@10 as every report has it."""

from itertools import pairwise

import pytest

from evaluator.judging.compared_pool import STRATA, compared_pool
from evaluator.metrics.metric_formulas import QueryJudgments, ndcg
from tests.support.rankings import random_cases


def ndcg_at_10(grades: dict[str, int], ranking: list[str]) -> float:
    return ndcg(QueryJudgments(grades, ()), [(name,) for name in ranking], 10)


def test_differences_are_those_of_the_metric() -> None:
    for (judged, first), (_, second) in pairwise(random_cases()):
        pool = compared_pool([first, second, first], list(judged))
        expected = [
            ndcg_at_10(judged[query], second.get(query, [])) - ndcg_at_10(judged[query], first.get(query, []))
            for query in judged
        ]
        differences, of_itself = pool.differences(judged)
        assert differences == pytest.approx(expected, abs=1e-12)
        assert any(differences)
        assert of_itself == [0.0] * len(judged)


def test_strata_are_of_who_returned_a_document() -> None:
    pool = compared_pool([{"q": ("a", "b")}, {"q": ("b", "c")}], ["q"])
    assert pool.strata["q"] == {"a": 0, "b": 2, "c": 1}
    assert set(pool.strata["q"].values()) == set(range(STRATA))


def test_a_query_without_a_ranking_or_a_judgment_differs_by_nothing() -> None:
    pool = compared_pool([{}, {"q": ("a",)}], ["q"])
    assert pool.differences({}) == [[0.0]]
    assert pool.differences({"q": {"a": 2}}) == [[1.0]]
    assert pool.differences({"q": {"a": 2, "b": 2}}) == [[pytest.approx(1 / (1 + 1 / 1.584962500721156))]]
