"""A pool holds each unjudged document once, in an order that says nothing of systems."""

import pytest

from evaluator.judging.pool import PooledPair, graded_pairs, pooled_pairs

FIRST = {"q1": ("a", "b", "c"), "q2": ("d",), "unjudged": ("x",)}
SECOND = {"q1": ("c", "b", "e"), "q2": ()}
JUDGED = {"q1": {"b": 1}, "q2": {"z": 1}}


def test_the_unjudged_documents_down_to_the_depth_are_pooled_once() -> None:
    pairs = pooled_pairs([FIRST, SECOND], JUDGED, ["q1", "q2"], top=2, seed=1)
    assert sorted(pairs) == [PooledPair("q1", "a"), PooledPair("q1", "c"), PooledPair("q2", "d")]


def test_the_order_depends_on_the_seed_and_not_on_the_order_of_the_runs() -> None:
    rankings = [{f"q{n}": tuple(f"d{at}" for at in range(20)) for n in range(5)}, SECOND]
    queries = [f"q{n}" for n in range(5)]
    drawn = pooled_pairs(rankings, {}, queries, top=10, seed=1)
    assert pooled_pairs(rankings[::-1], {}, queries[::-1], top=10, seed=1) == drawn
    assert pooled_pairs(rankings, {}, queries, top=10, seed=2) != drawn
    assert [pair.document for pair in drawn[:10]] != sorted(pair.document for pair in drawn[:10])


def test_the_documents_of_a_query_stay_together() -> None:
    rankings = [{f"q{n}": tuple(f"d{at}" for at in range(5)) for n in range(4)}]
    order = [pair.query for pair in pooled_pairs(rankings, {}, [f"q{n}" for n in range(4)], top=5, seed=3)]
    assert [order[at] for at in range(0, 20, 5)] == list(dict.fromkeys(order))


@pytest.mark.parametrize(
    ("grades", "majority", "tied"),
    [([2], 2, False), ([3, 1], 1, True), ([0, 0, 3], 0, False), ([3, 0, 2], 0, True), ([0, 2, 2, 2], 2, False)],
)
def test_the_majority_decides_and_the_lowest_grade_of_a_tie_counts(
    grades: list[int], majority: int, tied: bool
) -> None:
    pair = PooledPair("q", "d")
    (graded,) = graded_pairs({f"judge {at}": {pair: grade} for at, grade in enumerate(grades)})
    assert (graded.majority, graded.tied) == (majority, tied)
