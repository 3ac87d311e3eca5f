"""The pair judged next is the one whose judgment can change the comparison most."""

import pytest

from evaluator.judging.compared_pool import ComparedPool, compared_pool
from evaluator.judging.judge_next import JudgeNext
from evaluator.judging.pool import PooledPair, pooled_pairs
from tests.support.simulated_judging import TOP, simulated_collection


def judge_next(
    first: dict[str, tuple[str, ...]], second: dict[str, tuple[str, ...]], **judged: dict[str, int]
) -> JudgeNext:
    pool = compared_pool([first, second], list(first))
    return JudgeNext(pool, judged, pooled_pairs([first, second], judged, list(first), 10, 1), {})


def test_a_document_that_one_side_ranks_first_comes_before_one_that_both_rank_alike() -> None:
    order = judge_next({"q": ("a", "b", "c")}, {"q": ("d", "b", "e")}).order()
    assert {pair.document for pair in order[:2]} == {"a", "d"}
    assert order[-1].document == "b"


def test_a_document_weighs_less_where_more_is_known_to_be_relevant() -> None:
    known = {f"k{number}": 3 for number in range(10)}
    one: dict[str, tuple[str, ...]] = {"rich": ("a",), "poor": ("b",)}
    other: dict[str, tuple[str, ...]] = {"rich": ("c",), "poor": ("d",)}
    order = judge_next(one, other, rich=known, poor={"k": 1}).order()
    assert [pair.query for pair in order] == ["poor", "poor", "rich", "rich"]


def test_every_pair_is_asked_for_once_and_then_none() -> None:
    found = simulated_collection(1, with_older=False, queries=5)
    rankings = (found.first, found.second)
    pool = compared_pool(rankings, list(found.truth))
    pairs = pooled_pairs(rankings, {}, pool.queries, TOP, 1)
    following = JudgeNext(pool, {}, pairs, {})
    asked = []
    while (pair := following.first()) is not None:
        assert following.order()[0] == pair
        asked.append(pair)
        following.add(pair, found.truth[pair.query][pair.document])
    assert sorted(asked) == sorted(pairs)


def largest_change(pool: ComparedPool, grades: dict[str, dict[str, int]], pair: PooledPair) -> float:
    """Computes the weight of a pair as it is defined, by the differences of the whole pool."""
    before = sum(pool.differences(grades)[0])
    changes = []
    for grade in (1, 2, 3):
        judged = {query: dict(known) for query, known in grades.items()}
        judged[pair.query][pair.document] = grade
        changes.append(abs(sum(pool.differences(judged)[0]) - before))
    return max(changes)


def test_the_order_is_that_of_the_changes_computed_one_by_one() -> None:
    found = simulated_collection(2, with_older=True, queries=6)
    rankings = (found.first, found.second)
    pool = compared_pool(rankings, list(found.truth))
    pairs = pooled_pairs(rankings, found.judged, pool.queries, TOP, 1)
    graded = {pair: found.truth[pair.query][pair.document] for pair in pairs[:10]}
    following = JudgeNext(pool, found.judged, pairs, graded)
    grades = {query: dict(known) for query, known in found.judged.items()}
    for pair, grade in graded.items():
        grades[pair.query][pair.document] = grade
    weights = [largest_change(pool, grades, pair) for pair in following.order()]
    assert len(weights) == len(pairs) - 10
    assert weights == pytest.approx(sorted(weights, reverse=True))
    assert following.grades == grades


def test_a_session_that_goes_on_asks_what_one_in_one_go_would_ask() -> None:
    found = simulated_collection(3, with_older=False, queries=5)
    rankings = (found.first, found.second)
    pool = compared_pool(rankings, list(found.truth))
    pairs = pooled_pairs(rankings, {}, pool.queries, TOP, 1)
    whole, graded = JudgeNext(pool, {}, pairs, {}), {}
    for _ in range(20):
        pair = whole.first()
        assert pair is not None
        graded[pair] = found.truth[pair.query][pair.document]
        whole.add(pair, graded[pair])
    assert JudgeNext(pool, {}, pairs, graded).order() == whole.order()


def test_grades_that_changed_or_were_taken_back_give_the_order_of_a_new_beginning() -> None:
    found = simulated_collection(4, with_older=True, queries=5)
    rankings = (found.first, found.second)
    pool = compared_pool(rankings, list(found.truth))
    pairs = pooled_pairs(rankings, found.judged, pool.queries, TOP, 1)
    following = JudgeNext(pool, found.judged, pairs, dict.fromkeys(pairs[:8], 3))
    later = {pairs[0]: 3, pairs[1]: 0, pairs[9]: 2}
    following.follow(later)
    anew = JudgeNext(pool, found.judged, pairs, later)
    assert following.order() == anew.order()
    assert following.grades == anew.grades
