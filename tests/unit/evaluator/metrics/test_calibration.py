"""A family's p values and intervals agree, keep their rate by simulation, and are finite for every list."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from evaluator.metrics.calibration import Calibrated, calibrate

SEED = 20_261_128
LISTS = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]) | st.floats(-1, 1), min_size=1, max_size=30)


def by_query(values: Iterable[float]) -> dict[str, float]:
    return {f"q{number}": float(value) for number, value in enumerate(values)}


def alone(values: Iterable[float], draws: int | None = None) -> Calibrated:
    (calibrated,) = calibrate([by_query(values)], draws)
    return calibrated


def all_pairs(scores: Sequence[Sequence[float]]) -> list[Mapping[str, float]]:
    return [by_query(np.subtract(other, one)) for one, other in combinations(scores, 2)]


def drawn_scores(dice: np.random.Generator, queries: int, shifts: Sequence[float]) -> list[list[float]]:
    """Draws queries and returns nDCG@10 of each system, by query. Its shift moves its relevant documents up."""
    difficulty = dice.normal(0.8, 1.2, queries)
    ranks = [np.ceil(np.exp(difficulty + dice.normal(0.0, 0.7, queries) - moved)) for moved in shifts]
    return [np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0).tolist() for rank in ranks]


def test_a_pair_alone_of_normal_differences_has_the_p_and_interval_of_a_t_test() -> None:
    values = stats.norm(0.02, 0.1).ppf((np.arange(100) + 0.5) / 100)
    wanted = stats.ttest_1samp(values, 0.0)
    low, high = wanted.confidence_interval(0.95)
    found = alone(values)
    assert found.p == pytest.approx(wanted.pvalue, abs=0.01)
    assert found.interval == pytest.approx((low, high), abs=0.001)


def test_systems_alike_are_told_apart_in_few_families_and_a_bad_one_always() -> None:
    dice = np.random.default_rng(SEED)
    families = [calibrate(all_pairs(drawn_scores(dice, 50, (0.0, 0.0, 0.0, -1.0))), 999) for _ in range(100)]
    alike, bad = (0, 1, 3), (2, 4, 5)
    assert sum(any(family[at].shown for at in alike) for family in families) <= 10
    assert sum(all(family[at].shown for at in bad) for family in families) >= 95


def test_few_wins_by_much_leave_out_the_truth_less_often_than_a_sign_flip_test_does() -> None:
    # 4 % of queries gain 0.5, all others lose a little: on average nothing.
    dice = np.random.default_rng(SEED)
    wrong = 0
    for _ in range(200):
        wins = dice.random(100) < 0.04
        wrong += alone(np.where(wins, 0.5, -0.02 / 0.96) + dice.normal(0.0, 0.01, 100), 999).shown
    assert wrong / 200 < 0.15


def test_the_order_of_queries_and_pairs_and_the_direction_change_nothing() -> None:
    scores = drawn_scores(np.random.default_rng(SEED), 40, (0.0, 0.3, 0.6))
    family = all_pairs(scores)
    turned = [dict(reversed([*pair.items()])) for pair in reversed(family)]
    assert calibrate(turned) == tuple(reversed(calibrate(family)))
    mirrored = calibrate([{query: -value for query, value in pair.items()} for pair in family])
    assert [pair.turned for pair in mirrored] == list(calibrate(family))


def test_a_larger_family_is_more_careful() -> None:
    scores = drawn_scores(np.random.default_rng(SEED), 60, (0.0, 0.5, 0.1, 0.2, 0.3))
    family = all_pairs(scores)
    together, single = calibrate(family)[0], alone(list(family[0].values()))
    assert together.p > single.p
    assert together.interval is not None
    assert single.interval is not None
    assert together.interval[0] < single.interval[0]


def test_pairs_over_other_queries_share_a_family() -> None:
    dice = np.random.default_rng(SEED)
    first = by_query(dice.normal(0.05, 0.1, 60))
    second = {f"other {query}": value for query, value in first.items()}
    both = calibrate([first, second])
    assert [pair.shown for pair in both] == [True, True]
    assert both[0].p == pytest.approx(both[1].p, abs=0.01)


def test_few_queries_show_nothing_and_equal_differences_as_much_as_sign_flips() -> None:
    assert [alone([0.1] * queries).shown for queries in (1, 5, 6, 60)] == [False, False, True, True]
    assert alone([0.5]).interval is None
    assert (alone([0.0] * 10).p, alone([0.0] * 10).interval) == (1.0, (0.0, 0.0))


def test_a_few_queries_that_differ_show_nothing_among_many_that_do_not() -> None:
    few = alone([-0.37] * 3 + [0.0] * 57)
    assert few.interval is not None
    assert (few.shown, few.interval[0] > -0.3, few.interval[1]) == (False, True, 0.0)
    tiny = alone([0.01, 0.01] + [0.0] * 298)
    assert tiny.interval is not None
    assert max(map(abs, tiny.interval)) < 0.01


def test_as_many_queries_as_are_needed_show_the_difference_in_four_of_five_samples() -> None:
    dice = np.random.default_rng(SEED)
    needed = alone(dice.normal(0.02, 0.1, 100)).needed
    assert needed is not None
    mean = alone(np.random.default_rng(SEED).normal(0.02, 0.1, 100)).mean
    shown = [alone(dice.normal(mean, 0.1, needed), 999).shown for _ in range(60)]
    assert 0.6 < sum(shown) / 60 < 0.95


@settings(max_examples=40, deadline=None)
@given(LISTS, LISTS)
@example([-1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 2.7e-52])
def test_p_and_interval_never_contradict_each_other(first: list[float], second: list[float]) -> None:
    for pair in calibrate([by_query(first), by_query(second)]):
        assert 0 < pair.p <= 1
        if pair.interval is None:
            assert not pair.shown
            continue
        low, high = pair.interval
        assert math.isfinite(low)
        assert math.isfinite(high)
        assert low <= pair.mean <= high
        assert pair.shown == (not low <= 0.0 <= high)
