"""A ratio of latencies is of pairs, and its interval widens when neighbours in time are alike."""

import random

import pytest

from evaluator.comparison.comparing import LatencyRatio, latency_ratio


def ratio(first: list[float], second: list[float]) -> LatencyRatio:
    """Returns the ratio of two lists of times, query by query."""
    one, other = ({(f"q{at}", 0): ms for at, ms in enumerate(times)} for times in (first, second))
    found = latency_ratio(("A", "B"), one, other, seed=7)
    assert found is not None
    return found


def test_twice_the_time_of_every_query_is_a_certain_ratio_of_2() -> None:
    found = ratio([float(ms) for ms in range(1, 101)], [2.0 * ms for ms in range(1, 101)])
    assert (found.ratio, *found.interval) == pytest.approx((2.0, 2.0, 2.0))
    assert (found.pairs, found.block) == (100, 5)


def test_load_that_lasts_widens_the_interval() -> None:
    dice = random.Random(7)
    scattered = [1.5 if dice.random() < 0.5 else 1.0 for _ in range(300)]
    lasting = sorted(scattered)
    widths = [high - low for low, high in (ratio([1.0] * 300, times).interval for times in (scattered, lasting))]
    assert widths[1] > 1.5 * widths[0]


def test_only_queries_that_both_answered_are_pairs() -> None:
    first, second = {(f"q{n}", 0): 1.0 for n in range(40)}, {(f"q{n}", 0): 3.0 for n in range(10, 60)}
    found = latency_ratio(("A", "B"), first, second, seed=7)
    assert found is not None
    assert (found.pairs, found.ratio) == (30, pytest.approx(3.0))


def test_fewer_than_20_pairs_have_no_ratio() -> None:
    times = {(f"q{n}", 0): 1.0 for n in range(19)}
    assert latency_ratio(("A", "B"), times, times, seed=7) is None
