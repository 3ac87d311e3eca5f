"""Checks how the time of a search is split, so that its answer is not late."""

import time

import pytest

from gateway.backends.budget import LEAST_CALL_S, Budget
from services.chassis.deadlines import FOR_A_SEARCH, WRITING_S_PER_HIT, Deadline


def with_left(seconds: float) -> Budget:
    """Returns a budget on a clock that stands still."""
    return Budget(seconds, clock=lambda: 0.0)


@pytest.mark.parametrize(
    ("left_s", "reserve_s"), [(0.05, FOR_A_SEARCH.least_s), (1.0, 0.1), (60.0, FOR_A_SEARCH.most_s)]
)
def test_the_stages_end_before_the_deadline_by_a_tenth_of_it_within_bounds(left_s: float, reserve_s: float) -> None:
    deadline = Deadline(time.monotonic() + left_s)
    assert deadline.at - Budget.within(deadline).ends_at == pytest.approx(reserve_s, rel=0.1)


def test_a_stage_leaves_those_after_it_their_share() -> None:
    assert with_left(1.0).share_s(3.0, 1.0) == 0.75
    assert with_left(1.0).share_s(3.0, 0.0) == 1.0


def test_a_share_leaves_the_time_to_write_the_hits() -> None:
    budget = with_left(1_000 * WRITING_S_PER_HIT + LEAST_CALL_S * 0.9)
    assert budget.share_s(1.0, 0.0) > LEAST_CALL_S
    assert budget.share_s(1.0, 0.0, hits=1_000) == 0


def test_time_for_one_call_is_not_time_for_two() -> None:
    budget = with_left(LEAST_CALL_S * 1.9)
    assert budget.share_s(1.0, 0.0) == budget.ends_at
    assert budget.share_s(1.0, 0.0, calls=2) == 0


def test_a_share_after_the_time_is_over_is_0() -> None:
    assert with_left(LEAST_CALL_S * 0.9).share_s(1.0, 0.0) == 0
    assert with_left(-1.0).share_s(1.0, 0.0) == 0
