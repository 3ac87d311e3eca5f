"""Scores a passage by the share of the query's words that it contains. Needs no model; for tests and trials."""

import asyncio
from collections.abc import Sequence

from services.chassis.deadlines import Deadline
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split, count_words, cut_passages, lowercase_words


class OverlapScorer:
    """Implements Scorer by counting shared words."""

    model = "overlap@000000000000"
    weight = 0.5
    bounded = True
    max_tokens = 8_192

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> tuple[float, ...]:
        """Returns |shared words| / |words of the query| for each passage, or its best part: 0 to 1."""
        deadline.require_before("scoring")
        query_words = frozenset(lowercase_words(query))

        def scored() -> tuple[float, ...]:
            shared = (
                max(len(query_words.intersection(lowercase_words(part))) for part in parts)
                for parts in cut_passages(passages, split, self.max_tokens)
            )
            return tuple(count / max(1, len(query_words)) for count in shared)

        return await asyncio.to_thread(scored)

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        """Returns all scores, or None for all if the deadline has passed: counting is too fast to be interrupted."""
        if not deadline.remaining_ms:
            return PartialScores((None,) * len(passages))
        return PartialScores(await self.score(query, passages, deadline, split))

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the words of the query and each passage together."""
        return await asyncio.to_thread(lambda: tuple(count_words(f"{query} {passage}") for passage in passages))

    async def close(self) -> None:
        """Does nothing: it owns no threads."""
