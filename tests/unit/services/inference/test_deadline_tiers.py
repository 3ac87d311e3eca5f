"""Checks which candidates are scored, and in which order, when the deadline may not leave time for all."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.inference.micro_batches import batch_cap, count_reachable, form_batches_by_tier, split_into_tiers
from services.inference.open_model import HALF_LIFE_S, TokenTime

COSTS = st.lists(st.integers(1, 512), max_size=200)
THREADS = st.integers(1, 8)
BUDGETS = st.one_of(st.floats(0, 20_000), st.just(math.inf))


def tiers_of(costs, threads, budget):
    """Returns the tiers of candidates of one row each."""
    return split_into_tiers(costs, [1] * len(costs), threads, budget)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_the_depth_is_what_all_threads_finish_within_the_budget():
    assert count_reachable([100, 100, 100, 100, 100], 2, 200) == 4
    assert count_reachable([150, 100, 110, 10], 2, 200) == 2
    assert count_reachable([300, 10], 2, 200) == 0


@given(COSTS, THREADS, BUDGETS)
def test_tiers_hold_every_place_once_and_in_order(costs, threads, budget):
    assert [place for tier in tiers_of(costs, threads, budget) for place in tier] == list(range(len(costs)))


def test_with_enough_time_there_is_one_tier():
    assert tiers_of([10] * 150, 2, math.inf) == [range(150)]
    assert tiers_of([10] * 150, 2, 10 * 150 / 2 * 2) == [range(150)]


def test_tiers_end_at_the_expected_depth_at_20_50_100_and_at_every_doubling():
    ends = [tier.stop for tier in tiers_of([10] * 450, 1, 70)]
    assert ends == [7, 14, 20, 28, 50, 56, 100, 112, 200, 224, 400, 448, 450]


@given(st.lists(st.lists(st.integers(1, 512), min_size=1, max_size=8), max_size=200), THREADS, BUDGETS)
def test_no_candidate_of_several_rows_is_in_two_tiers(candidates, threads, budget):
    costs = [cost for rows in candidates for cost in rows]
    tiers = split_into_tiers(costs, [len(rows) for rows in candidates], threads, budget)
    whole = tiers_of([sum(rows) for rows in candidates], threads, budget)
    assert [sum(map(len, candidates[tier.start : tier.stop])) for tier in whole] == list(map(len, tiers))
    assert [place for tier in tiers for place in tier] == list(range(len(costs)))


@given(COSTS, THREADS, BUDGETS, st.booleans())
def test_batches_of_tiers_hold_every_row_once_tier_by_tier(costs, threads, budget, batchable):
    ranges = tiers_of(costs, threads, budget)
    batches = form_batches_by_tier(costs, ranges, batch_cap(512, budget), batchable=batchable)
    assert sorted(place for batch in batches for place in batch) == list(range(len(costs)))
    tier_of = {place: number for number, tier in enumerate(ranges) for place in tier}
    numbers = [{tier_of[place] for place in batch} for batch in batches]
    assert all(len(number) == 1 for number in numbers)
    assert numbers == sorted(numbers, key=min)


def test_a_batch_is_a_small_part_of_a_small_budget():
    assert batch_cap(512, 400.0) == 100
    assert batch_cap(512, math.inf) == 512
    assert batch_cap(512, 0.0) == 1


def test_recent_and_large_calls_weigh_more():
    estimate = TokenTime(Clock())
    estimate.record(3, 0.003)
    estimate.record(512, 0.1)
    assert estimate.seconds_per_token == pytest.approx(0.1 / 512, rel=0.05)
    for _ in range(100):
        estimate.record(512, 0.4)
    assert estimate.seconds_per_token == pytest.approx(0.4 / 512, rel=0.01)


def test_without_measurements_the_estimate_decays_to_the_lowest_seen():
    clock = Clock()
    estimate = TokenTime(clock)
    estimate.record(512, 0.1)
    lowest = estimate.seconds_per_token
    for _ in range(100):
        estimate.record(512, 10.0)
    clock.now_s += HALF_LIFE_S
    assert estimate.seconds_per_token == pytest.approx(5.0 / 512, rel=0.01)
    clock.now_s += 3_600
    assert estimate.seconds_per_token == lowest
