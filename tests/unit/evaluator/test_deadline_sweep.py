"""How many candidates an answer's re-ranking scored, as far as the answer tells."""

import pytest

from evaluator.deadline_sweep import scored, scored_share
from services.contracts.query import SearchAnswer

RERANKS = {"rerank": 100}


def answered(hits: int, done: int | None = None) -> SearchAnswer:
    degraded = [] if done is None else [
        {"stage": "rerank", "reason": "deadline", "detail": "", "done": done, "of": 100}
    ]  # fmt: skip
    return SearchAnswer.model_validate(
        {
            "collection": "shop@1",
            "pipeline": {"name": "bm25-rerank", "fingerprint": "f"},
            "request_id": "r",
            "hits": [{"id": f"d{rank}", "rank": rank, "score": 1.0} for rank in range(1, hits + 1)],
            "degraded": degraded,
            "timings_ms": {},
        }
    )


@pytest.mark.parametrize(
    ("hits", "asked", "done", "number", "share"),
    [
        (1_000, 1_000, None, 100, 1.0),
        (40, 1_000, None, 40, 1.0),  # all hits are shown, so that there were no more candidates
        (10, 10, None, None, 1.0),  # up to 100 candidates for the 10 hits that were asked for
        (10, 10, 37, 37, 0.37),
        (1_000, 1_000, 0, 0, 0.0),
    ],
)
def test_candidates_are_counted_where_the_answer_tells_them(
    hits: int, asked: int, done: int | None, number: int | None, share: float
) -> None:
    answer = answered(hits, done)
    assert scored(answer, RERANKS, asked) == number
    assert scored_share(answer, RERANKS) == pytest.approx(share)
