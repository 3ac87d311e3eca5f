"""The choice among replayed points, its honest estimate, and the front."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.replay.choice import best, folds, front, honest_mean


def test_the_front_has_no_point_that_another_beats_in_both() -> None:
    assert front([0.5, 0.7, 0.6, 0.7, 0.4], [10.0, 30.0, 40.0, 30.0, 5.0]) == [4, 0, 1]


@given(st.integers(2, 60), st.integers(2, 5), st.integers(0, 100))
def test_folds_hold_every_query_once(queries: int, count: int, seed: int) -> None:
    dealt = folds(queries, count, seed)
    assert sorted(query for fold in dealt for query in fold) == list(range(queries))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_of_points_with_the_same_mean_the_cheapest_is_chosen() -> None:
    assert best([0.5, 0.6, 0.6], [1.0, 9.0, 3.0]) == 2


def test_points_of_pure_chance_are_estimated_lower_than_they_were_tuned() -> None:
    values = np.random.default_rng(7).random((400, 40))  # no point is better than another
    honest, _ = honest_mean(values, [1.0] * 400, 5, seed=7)
    assert values.mean(axis=1).max() > 0.6
    assert abs(honest - 0.5) < 0.07


def test_a_point_that_is_better_on_every_query_is_chosen_in_every_fold() -> None:
    values = np.array([[0.1] * 10, [0.9] * 10, [0.5] * 10])
    assert honest_mean(values, [1.0, 2.0, 3.0], 5, seed=1) == (pytest.approx(0.9), [1] * 5)
