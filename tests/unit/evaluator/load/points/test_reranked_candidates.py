"""How many candidates an answer's re-ranking scored, as far as the answer tells."""

import pytest

from evaluator.load.points.figures import candidates_scored, share_scored
from services.contracts.query import Degradation

RERANKS = {"rerank": 100}


def flags(done: int | None) -> tuple[Degradation, ...]:
    return () if done is None else (Degradation(stage="rerank", reason="deadline", detail="", done=done, of=100),)


@pytest.mark.parametrize(
    ("hits", "asked", "done", "number", "share"),
    [
        (1_000, 1_000, None, 100, 1.0),
        (0, 1_000, None, 0, 1.0),  # nothing to re-rank is no degradation
        (40, 1_000, None, 40, 1.0),  # all hits are shown, so that there were no more candidates
        (10, 10, None, None, 1.0),  # up to 100 candidates for the 10 hits that were asked for
        (10, 10, 37, 37, 0.37),
        (1_000, 1_000, 0, 0, 0.0),
    ],
)
def test_candidates_are_counted_where_the_answer_tells_them(
    hits: int, asked: int, done: int | None, number: int | None, share: float
) -> None:
    assert candidates_scored(flags(done), hits, RERANKS, asked) == number
    assert share_scored(flags(done), RERANKS) == pytest.approx(share)
