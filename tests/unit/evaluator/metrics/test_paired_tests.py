"""Paired tests keep their error rates, agree with hand-worked cases, and are finite for every list of differences."""

import math
from itertools import product
from statistics import NormalDist

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.metrics.paired_tests import (
    above_p,
    bca_interval,
    differences,
    effect_size,
    equivalence_p,
    holm,
    minimum_detectable,
    queries_needed,
    sign_flip_p,
    too_few,
)

SEED = 20_261_123
# Steps as metrics have them, and values next to one another: both make degenerate samples.
LISTS = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0, 1e-8]) | st.floats(-1, 1), min_size=1, max_size=30)


def normal(n: int, mean: float) -> list[float]:
    """Returns n quantiles of a normal distribution with standard deviation 0.1 around a mean."""
    return [NormalDist(mean, 0.1).inv_cdf((at + 0.5) / n) for at in range(n)]


def power_of(queries: int, effect: float, family: int) -> float:
    """Returns the power of the two-sided t test, as an integral over the normal part of t.

    |Z + away| > critical * S, where S^2 is chi-squared over its degrees of freedom.
    """
    import numpy as np
    from scipy import stats

    freedom, away = queries - 1, effect * math.sqrt(queries)
    critical = stats.t.isf(0.05 / family / 2, freedom)
    normal, step = np.linspace(-9, 9, 6_001, retstep=True)
    beyond = stats.chi2.cdf(freedom * ((normal + away) / critical) ** 2, freedom)
    return float(np.sum(stats.norm.pdf(normal) * beyond) * step)


def test_few_queries_have_the_p_of_all_sign_flips() -> None:
    values = [0.3, 0.1, -0.1, 0.4, 0.2]
    flips = [abs(sum(s * v for s, v in zip(signs, values, strict=True))) for signs in product((1, -1), repeat=5)]
    expected = sum(flip >= abs(sum(values)) - 1e-12 for flip in flips) / len(flips)
    assert sign_flip_p(values, SEED) == pytest.approx(expected)


def test_many_queries_have_the_smallest_p_of_ten_thousand_at_best() -> None:
    assert sign_flip_p([0.1] * 100, SEED) == pytest.approx(1 / 10_000)


def test_p_is_that_of_a_t_test_for_normal_differences() -> None:
    from scipy import stats

    values = normal(100, 0.02)
    assert sign_flip_p(values, SEED) == pytest.approx(stats.ttest_1samp(values, 0).pvalue, abs=0.01)


def test_the_same_seed_gives_the_same_p_and_interval() -> None:
    values = normal(40, 0.02)
    assert sign_flip_p(values, 1) == sign_flip_p(values, 1) != sign_flip_p(values, 2)
    assert bca_interval(values, 1) == bca_interval(values, 1) != bca_interval(values, 2)


def test_holm_multiplies_the_smallest_p_by_the_size_of_the_family() -> None:
    assert holm([0.03, 0.01, 0.04]) == pytest.approx((0.06, 0.03, 0.06))
    assert holm([0.5, 0.01, 0.01, 0.9]) == pytest.approx((1.0, 0.04, 0.04, 1.0))
    assert holm([]) == ()


def test_a_difference_of_the_minimum_detectable_size_needs_the_queries_that_there_are() -> None:
    values = normal(300, 0.0)
    detectable = minimum_detectable(values)
    assert detectable is not None
    assert queries_needed([value + detectable for value in values]) == pytest.approx(300, abs=1)


def test_a_tiny_difference_needs_a_finite_number_of_queries() -> None:
    spread = normal(300, 0.0)
    needed = [queries_needed([value + 0.1 * effect for value in spread]) for effect in (0.0501, 0.0499, 1e-3, 1e-8)]
    assert needed == pytest.approx([7.849 / effect**2 for effect in (0.0501, 0.0499, 1e-3, 1e-8)], rel=0.01)


def test_no_fewer_queries_are_needed_than_a_test_asks_for() -> None:
    assert [queries_needed([0.1, 0.10001] * 3, family) for family in (1, 8)] == [6, 9]


def test_equivalence_needs_the_mean_to_lie_certainly_within_the_margin() -> None:
    assert equivalence_p(normal(1000, 0.001), 0.01) < 0.05
    assert equivalence_p(normal(1000, 0.02), 0.01) > 0.95
    assert equivalence_p(normal(50, 0.001), 0.01) > 0.05


def test_two_equal_differences_show_nothing() -> None:
    assert above_p([0.0, 0.0], -0.01) == 0.25
    assert above_p([0.0] * 100, -0.01) < 1e-20
    assert above_p([-0.5] * 100, -0.01) == 1.0


def test_rounding_is_no_difference() -> None:
    assert differences([0.1 + 0.2, 0.5], [0.3, 0.75]) == (0.0, 0.25)


@settings(max_examples=25, deadline=None)
@given(LISTS)
def test_every_list_of_differences_has_finite_figures(values: list[float]) -> None:
    found = differences([0.0] * len(values), values)
    low, high = bca_interval(found, SEED)
    assert min(found) - 1e-12 <= low <= high <= max(found) + 1e-12
    assert 0 < sign_flip_p(found, SEED) <= 1
    assert 0 <= equivalence_p(found, 0.01) <= 1
    needed = queries_needed(found)
    assert needed is None or needed >= 2
    numbers = (effect_size(found), minimum_detectable(found))
    assert all(number is None or math.isfinite(number) for number in numbers)


@pytest.mark.parametrize("family", [1, 3, 20])
def test_the_queries_needed_are_the_fewest_with_the_power(family: int) -> None:
    for offset in (0.05, 0.07, 0.2, 0.5, 1.0):
        values = [offset + (-1.0) ** at for at in range(60)]
        needed, effect = queries_needed(values, family), effect_size(values)
        assert needed is not None
        assert effect is not None
        assert power_of(needed, effect, family) >= 0.8
        assert too_few(needed - 1, family) or power_of(needed - 1, effect, family) < 0.8
