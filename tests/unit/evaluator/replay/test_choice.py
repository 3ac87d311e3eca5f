"""A point is measured as its own answers are, chosen by its mean, and estimated on held-out queries."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.metrics.quality import measure
from evaluator.replay.choice import QueryAnswers, best, folds, honest_mean, measured


@given(st.integers(2, 60), st.integers(2, 5), st.integers(0, 100))
def test_folds_hold_every_query_once(queries: int, count: int, seed: int) -> None:
    dealt = folds(queries, count, seed)
    assert sorted(query for fold in dealt for query in fold) == list(range(queries))
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_of_points_with_the_same_mean_the_first_is_chosen() -> None:
    assert best([0.5, 0.6, 0.6]) == 1


def test_points_of_pure_chance_are_estimated_lower_than_they_were_tuned() -> None:
    values = np.random.default_rng(7).random((400, 40))  # no point is better than another
    honest, _ = honest_mean(values, 5, seed=7)
    assert values.mean(axis=1).max() > 0.6
    assert abs(honest - 0.5) < 0.07


def test_a_point_that_is_better_on_every_query_is_chosen_in_every_fold() -> None:
    values = np.array([[0.1] * 10, [0.9] * 10, [0.5] * 10])
    assert honest_mean(values, 5, seed=1) == (pytest.approx(0.9), [1] * 5)


def test_a_point_is_measured_as_its_own_answers_are() -> None:
    dice = random.Random(3)
    judgments = {f"q{at}": {f"d{n}": dice.choice([-1, 0, 1, 2]) for n in range(12)} for at in range(4)}
    answers = [
        QueryAnswers(
            query, [tuple(dice.sample([f"d{n}" for n in range(20)], 5)) for _ in range(30)], [*range(30), None]
        )
        for query in judgments
    ]
    values = measured(answers, judgments, 31, "nDCG@5")
    for point in range(30):
        own = {answer.query: answer.answer(point) or () for answer in answers}
        expected = measure(judgments, own, list(judgments), ["nDCG@5"])["nDCG@5"]
        assert values[point].tolist() == list(expected.values())
    assert np.isnan(values[30]).all()
