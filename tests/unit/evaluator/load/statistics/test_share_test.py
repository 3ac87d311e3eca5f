"""The test of a share of at most 1 %, on requests whose share is known."""

import random

import pytest

from evaluator.load.capacity import FEWEST_REQUESTS, ShareOutcome, share_outcome


@pytest.mark.parametrize(
    ("misses", "requests", "outcome"),
    [(0, 298, "open"), (0, 299, "within"), (1, 472, "open"), (1, 473, "within"), (3, 299, "open"), (0, 0, "open")],
)
def test_a_share_is_within_from_the_requests_of_the_binomial_test(
    misses: int, requests: int, outcome: ShareOutcome
) -> None:
    assert share_outcome([True] * misses + [False] * (requests - misses)) == outcome


def test_299_requests_without_a_miss_suffice() -> None:
    assert FEWEST_REQUESTS == 299


def test_a_share_of_two_percent_is_above_and_one_burst_is_not() -> None:
    dice = random.Random(1)
    assert share_outcome([dice.random() < 0.03 for _ in range(3_000)]) == "above"
    burst = [False] * 400 + [True] * 30 + [False] * 400
    assert share_outcome(burst) == "open"


def test_requests_that_all_miss_are_above() -> None:
    assert share_outcome([True] * 299) == "above"
