"""Percentiles are observed values, and a p99 of few samples is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.latency import percentile, summarise


def test_percentiles_of_one_to_a_hundred_are_their_ranks() -> None:
    values = [float(value) for value in range(1, 101)]
    assert [percentile(values, share) for share in (0.5, 0.95, 0.99, 1.0)] == [50, 95, 99, 100]


def test_a_p99_needs_662_samples() -> None:
    assert summarise([1.0] * 661).p99 is None
    assert summarise([1.0] * 662).p99 == 1.0


def test_no_samples_give_no_figures() -> None:
    assert summarise([]).model_dump() == {"p50": None, "p95": None, "p99": None, "max": None, "n": 0, "drift": None}


def test_drift_is_the_later_half_over_the_earlier() -> None:
    assert summarise([10.0, 10.0, 20.0, 20.0]).drift == 2.0


@given(st.lists(st.floats(0.001, 1e6), min_size=1), st.randoms())
def test_percentiles_are_samples_in_order_whatever_came_first(samples: list[float], dice: "object") -> None:
    figures = summarise(samples)
    shuffled = list(samples)
    dice.shuffle(shuffled)  # type: ignore[attr-defined]
    again = summarise(shuffled)
    assert (figures.p50, figures.p95, figures.max) == (again.p50, again.p95, again.max)
    assert figures.p50 in samples
    assert figures.p50 <= figures.p95 <= figures.max == max(samples)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_the_median_of_few_is_the_lower_middle_one(n: int) -> None:
    assert summarise([float(value) for value in range(n)]).p50 == (n - 1) // 2
