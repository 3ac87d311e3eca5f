"""The outlook of a verdict is settled where the judgments that are left hardly change it."""

import numpy as np
import pytest

from evaluator.comparison.verdict import outcomes_of
from evaluator.judging.compared_pool import ComparedPool, compared_pool
from evaluator.judging.outlook import CONFIDENCE, VerdictOutlook, grade_counts, verdict_outlooks
from evaluator.judging.pool import PooledPair, pooled_pairs
from tests.support.simulated_judging import TOP, simulated_collection

QUERIES = [f"q{number}" for number in range(30)]


def outlook(pool: ComparedPool, pairs: tuple[PooledPair, ...], graded: dict[PooledPair, int]) -> VerdictOutlook:
    grades: dict[str, dict[str, int]] = {query: {} for query in pool.queries}
    for pair, grade in graded.items():
        grades[pair.query][pair.document] = grade
    left = [pair for pair in pairs if pair not in graded]
    (found,) = verdict_outlooks(pool, grades, left, grade_counts(pool, graded), seed=1)
    return found


def two_sides() -> tuple[ComparedPool, tuple[PooledPair, ...]]:
    """Each side has one document of its own at rank 1; rank 2 is the same in both."""
    rankings = [dict.fromkeys(QUERIES, (own, "both")) for own in ("a", "b")]
    return compared_pool(rankings, QUERIES), pooled_pairs(rankings, {}, QUERIES, 10, 1)


def test_nothing_is_settled_before_the_first_judgment() -> None:
    found = outlook(*two_sides(), {})
    assert (found.outcome, found.settled) == ("same", False)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.shares["same"] < CONFIDENCE


def test_a_clear_difference_is_settled_long_before_the_last_judgment() -> None:
    pool, pairs = two_sides()
    judged = [pair for pair in pairs if pair.query in QUERIES[:25] and pair.document != "both"]
    found = outlook(pool, pairs, {pair: 3 if pair.document == "b" else 0 for pair in judged})
    assert (found.outcome, found.settled) == ("better", True)
    found = outlook(pool, pairs, {pair: 3 if pair.document == "a" else 0 for pair in judged})
    assert (found.outcome, found.settled) == ("worse", True)


def test_a_verdict_is_settled_where_nothing_is_left() -> None:
    pool, pairs = two_sides()
    graded = dict.fromkeys(pairs, 1)
    assert outlook(pool, pairs, graded) == VerdictOutlook(
        "same", {"better": 0.0, "worse": 0.0, "same": 1.0, "cannot tell": 0.0}, settled=True
    )


@pytest.mark.parametrize("seed", range(8))
def test_the_drawn_verdict_of_a_complete_pool_is_that_of_compare(seed: int) -> None:
    found = simulated_collection(seed, with_older=False)
    pool = compared_pool((found.first, found.second), list(found.truth))
    pairs = pooled_pairs((found.first, found.second), {}, pool.queries, TOP, seed)
    graded = {pair: found.truth[pair.query][pair.document] for pair in pairs}
    grades = {query: {name: graded[PooledPair(query, name)] for name in known if PooledPair(query, name) in graded}
              for query, known in found.truth.items()}  # fmt: skip
    (drawn,) = verdict_outlooks(pool, grades, [], grade_counts(pool, graded), seed)
    (present,) = outcomes_of(pool.differences(grades), seed)
    assert drawn.outcome == present
    assert drawn.shares[present] == 1.0, "the t test and the sign flips differ here; take another seed"


def test_verdicts_of_several_pipelines_are_adjusted_as_one_family() -> None:
    dice = np.random.default_rng(1)
    first = dict.fromkeys(QUERIES, ("a", "b", "c"))
    others = [{query: tuple(dice.permutation(["a", "b", "c"])) for query in QUERIES} for _ in range(6)]
    pool = compared_pool([first, *others], QUERIES)
    grades = {query: {"a": 2, "b": int(dice.integers(0, 4)), "c": int(dice.integers(0, 3))} for query in QUERIES}
    found = verdict_outlooks(pool, grades, [], grade_counts(pool, {}), seed=1)
    assert [one.outcome for one in found] == list(outcomes_of(pool.differences(grades), 1))
    assert all(one.shares[one.outcome] == 1.0 for one in found)
