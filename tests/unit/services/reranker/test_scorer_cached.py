"""Remembered scores: found again by all that they depend on, within their memory."""

from collections.abc import Sequence

from services.chassis.deadlines import Deadline
from services.contracts.passages import Passages
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split
from services.reranker.scorer_cached import ENTRY_BYTES, CachedScorer, ScoreCache
from services.reranker.scorer_overlap import OverlapScorer


def deadline() -> Deadline:
    return Deadline.after_ms(60_000)


class HalfDone(OverlapScorer):
    """Has time for the first passage only, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        self.asked.append(tuple(passages))
        first, *others = await self.score(query, passages, deadline)
        return PartialScores((first, *[None] * len(others)), needs_s=0.1)


def test_every_part_of_a_key_counts():
    one, other = ScoreCache("model fp32", 10_000), ScoreCache("model int8", 10_000)
    keys = {*one.keys("q", ["p", "r", ""]), *one.keys("qp", ["", "p"]), *one.keys("", ["qp"]), *other.keys("q", ["p"])}
    for tokens, overlap, title in ((16, 0, 0), (17, 0, 0), (16, 1, 0), (16, 0, 1)):
        keys |= set(one.keys("q", ["p"], Split(Passages(tokens=tokens, overlap=overlap), (title,))))
    assert len(keys) == 11
    assert one.keys("q", ["p"]) == ScoreCache("model fp32", 1).keys("q", ["p"])


def test_who_was_not_asked_for_longest_is_forgotten_first():
    cache = ScoreCache("", 2 * ENTRY_BYTES)
    a, b, c = cache.keys("q", ["a", "b", "c"])
    cache.put(a, 1.0)
    cache.put(b, 2.0)
    assert cache.lookup([a]) == [1.0]
    cache.put(c, 3.0)
    assert cache.lookup([a, b, c]) == [1.0, None, 3.0]
    assert len(cache) == 2


async def test_what_is_remembered_leaves_the_time_to_what_is_not():
    inner = HalfDone()
    scorer = CachedScorer(inner, ScoreCache("", 10_000))
    passages = ("red", "blue", "red car")
    rounds = [await scorer.score_until("red", passages, deadline()) for _ in range(4)]
    assert [one.scores for one in rounds] == [(1.0, None, None), (1.0, 0.0, None), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0)]
    assert [one.needs_s for one in rounds] == [0.1, 0.1, None, None]
    assert inner.asked == [("red", "blue", "red car"), ("blue", "red car"), ("red car",)]


async def test_a_passage_that_stands_twice_has_its_score_twice():
    scorer = CachedScorer(OverlapScorer(), ScoreCache("", 10_000))
    for _ in range(2):
        assert await scorer.score("red", ("red", "car", "red"), deadline()) == (1.0, 0.0, 1.0)
