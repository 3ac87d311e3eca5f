"""Equal scores are in ascending order of id, also at the cut, up to the documented limit."""

from collections.abc import Sequence

import pytest

from services.contracts.retrieval import FIRST_EXTRA
from services.contracts.scored import Scored
from services.storage.ties import MOST_EXTRA, settle_ties


class Engine:
    """Returns hits in the order given, and records how many were requested."""

    def __init__(self, scores: Sequence[tuple[str, float]]) -> None:
        self.hits = [Scored(id=one, score=score) for one, score in scores]
        self.asked: list[int] = []

    async def __call__(self, limit: int) -> Sequence[Scored]:
        self.asked.append(limit)
        return self.hits[:limit]


@pytest.mark.parametrize("tied", [FIRST_EXTRA + 2, 500, MOST_EXTRA])
async def test_the_smallest_ids_of_all_that_tie_make_the_cut(tied: int) -> None:
    engine = Engine([("top", 2.0), *((f"{number:05d}", 1.0) for number in reversed(range(tied))), ("last", 0.5)])
    assert [hit.id for hit in await settle_ties(engine, 3)] == ["top", "00000", "00001"]


async def test_one_request_is_enough_when_scores_differ() -> None:
    engine = Engine([(f"{number:03d}", 1.0 - number / 100) for number in range(100)])
    assert len(await settle_ties(engine, 10)) == 10
    assert engine.asked == [10 + FIRST_EXTRA]


async def test_the_search_for_ties_is_bounded() -> None:
    engine = Engine([(f"{number:06d}", 1.0) for number in range(3 * MOST_EXTRA)])
    assert len(await settle_ties(engine, 10)) == 10
    assert max(engine.asked) == 10 + MOST_EXTRA
