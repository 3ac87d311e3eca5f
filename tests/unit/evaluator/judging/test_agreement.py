"""Kappas are those of cases worked by hand; the consensus is the lower median."""

import random

import pytest

from evaluator.judging.agreement import group_agreement, judge_agreements
from evaluator.judging.consensus import DisputedPair, consensus_grade, consensus_grades, disputed_pairs
from evaluator.judging.pool import PooledPair

# 200 pairs by grade of Ann (row) and of Bob (column). Sums of rows: 80 50 45 25; of columns: 72 57 43 28.
TABLE = ((60, 15, 5, 0), (10, 30, 8, 2), (2, 10, 25, 8), (0, 2, 5, 18))


def two_judges() -> dict[str, dict[PooledPair, int]]:
    """Simulates two judges of 200 pairs, and pairs that only one of them graded."""
    graded = [(row, column) for row in range(4) for column in range(4) for _ in range(TABLE[row][column])]
    random.Random(1).shuffle(graded)
    pairs = [PooledPair(f"q{number % 10}", f"d{number}") for number in range(200)]
    ann = {pair: grade for pair, (grade, _) in zip(pairs, graded, strict=True)}
    bob = {pair: grade for pair, (_, grade) in zip(pairs, graded, strict=True)}
    return {"ann": ann | {PooledPair("q0", "alone"): 3}, "bob": bob | {PooledPair("q1", "alone"): 0}}


def test_kappas_of_two_hundred_pairs_are_those_worked_by_hand() -> None:
    (found,) = judge_agreements(two_judges())
    # Equal: 133 of 200; by chance (80*72 + 50*57 + 45*43 + 25*28) / 200^2 = 0.281125.
    assert found.agreement == pytest.approx(0.665)
    assert found.kappa == pytest.approx((0.665 - 0.281125) / (1 - 0.281125))
    # 56 pairs are one grade apart and 11 two: 78 in all; by chance 46340 / 200.
    assert found.kappa_linear == pytest.approx(1 - 78 * 200 / 46340)
    # 56 + 11 * 4 = 100; by chance 89590 / 200.
    assert found.kappa_quadratic == pytest.approx(1 - 100 * 200 / 89590)
    assert (found.first, found.second, found.pairs, found.confusion) == ("ann", "bob", 200, TABLE)


def test_kappa_is_not_defined_where_all_grades_are_equal_or_no_pair_is_shared() -> None:
    one, other = PooledPair("q", "a"), PooledPair("q", "b")
    (equal,) = judge_agreements({"ann": {one: 1, other: 1}, "bob": {one: 1, other: 1}})
    assert (equal.agreement, equal.kappa, equal.kappa_quadratic) == (1.0, None, None)
    (apart,) = judge_agreements({"ann": {one: 1}, "bob": {other: 1}})
    assert (apart.pairs, apart.agreement, apart.kappa) == (0, None, None)


def test_fleiss_kappa_is_of_the_pairs_that_all_graded() -> None:
    rated = [(0, 0, 0), (1, 1, 2), (3, 3, 3), (0, 1, 0)]
    judges = {
        name: {PooledPair("q", f"d{at}"): grades[place] for at, grades in enumerate(rated)}
        for place, name in enumerate(("ann", "bob", "cy"))
    }
    judges["ann"][PooledPair("q", "alone")] = 2
    found = group_agreement(judges)
    assert found is not None
    # Mean agreement (1 + 1/3 + 1 + 1/3) / 4; by chance (5^2 + 3^2 + 1 + 3^2) / 12^2.
    assert found.kappa == pytest.approx((2 / 3 - 44 / 144) / (1 - 44 / 144))
    assert found.pairs == 4
    assert group_agreement({name: judges[name] for name in ("ann", "bob")}) is None


@pytest.mark.parametrize(
    ("grades", "expected"),
    [([2], 2), ([3, 1], 1), ([0, 0, 3], 0), ([3, 0, 2], 2), ([1, 1, 3, 3], 1), ([0, 2, 2, 2], 2)],
)
def test_the_consensus_is_the_lower_median(grades: list[int], expected: int) -> None:
    assert consensus_grade(grades) == expected


def test_pairs_on_which_judges_differ_are_listed_by_how_far() -> None:
    near, far, agreed = (PooledPair("q", name) for name in ("near", "far", "agreed"))
    judges = {"ann": {near: 1, far: 0, agreed: 2}, "bob": {near: 2, far: 3, agreed: 2}}
    assert disputed_pairs(judges) == [
        DisputedPair(far, {"ann": 0, "bob": 3}),
        DisputedPair(near, {"ann": 1, "bob": 2}),
    ]
    assert consensus_grades(judges) == {near: 1, far: 0, agreed: 2}
