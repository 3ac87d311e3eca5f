"""Differences are free of rounding, and the interval of a mean is finite for every list of values."""

from statistics import NormalDist

from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.metrics.paired_differences import bca_interval, differences

SEED = 20_261_123


def test_the_same_seed_gives_the_same_interval() -> None:
    values = [NormalDist(0.02, 0.1).inv_cdf((at + 0.5) / 40) for at in range(40)]
    assert bca_interval(values, 1) == bca_interval(values, 1) != bca_interval(values, 2)


def test_rounding_is_no_difference() -> None:
    assert differences([0.1 + 0.2, 0.5], [0.3, 0.75]) == (0.0, 0.25)


# Steps as metrics have them, and values next to one another: both make degenerate samples.
@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 1e-8]) | st.floats(-1, 1), min_size=1, max_size=30))
def test_every_list_of_differences_has_a_finite_interval(values: list[float]) -> None:
    between = differences([0.0] * len(values), values)
    low, high = bca_interval(between, SEED)
    assert min(between) - 1e-12 <= low <= high <= max(between) + 1e-12
