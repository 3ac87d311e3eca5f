"""Which systems may be the best: error rate by simulation, agreement with the test of a pair, degenerate samples."""

from collections.abc import Sequence

import numpy as np
import pytest

from evaluator.comparison.contenders import contenders
from evaluator.metrics.paired_tests import differences, sign_flip_p

SEED = 20_261_126


def drawn_scores(dice: np.random.Generator, queries: int, shifts: Sequence[float]) -> list[list[float]]:
    """Draws queries and returns nDCG@10 of each system, by query. Its shift moves its relevant documents up."""
    difficulty = dice.normal(0.8, 1.2, queries)
    ranks = [np.ceil(np.exp(difficulty + dice.normal(0.0, 0.7, queries) - moved)) for moved in shifts]
    return [np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0).tolist() for rank in ranks]


def test_the_truly_best_of_five_is_seldom_ruled_out_and_a_clearly_worse_one_is() -> None:
    dice = np.random.default_rng(SEED)
    shifts = (0.1, 0.1, 0.05, 0.0, -1.0)
    found = [contenders(drawn_scores(dice, 50, shifts), SEED + at, 999) for at in range(200)]
    best, *_, worst = (sum(column) / len(found) for column in zip(*found, strict=True))
    assert best >= 0.95
    assert worst <= 0.05


@pytest.mark.parametrize("queries", [8, 13, 60])
def test_of_two_systems_the_worse_is_ruled_out_where_the_paired_test_finds_a_difference(queries: int) -> None:
    dice = np.random.default_rng(SEED)
    for shift in (0.0, 0.3, 0.6, 1.2):
        first, second = drawn_scores(dice, queries, (0.0, shift))
        p = sign_flip_p(differences(first, second), SEED)
        if abs(p - 0.05) > 0.01:  # drawn flips are others in the two
            assert all(contenders((first, second), SEED)) == (p > 0.05)


def test_equal_systems_all_contend_and_few_queries_rule_out_nothing() -> None:
    assert contenders(([0.5, 1.0, 0.2], [0.5, 1.0, 0.2], [0.5, 1.0, 0.2]), SEED) == (True, True, True)
    assert contenders(([1.0] * 5, [0.0] * 5), SEED) == (True, True)  # 1 of 32 sign flips
    assert contenders(([1.0] * 6, [0.0] * 6), SEED) == (True, False)  # 1 of 64
    assert contenders(([1.0], [0.0]), SEED) == (True, True)
