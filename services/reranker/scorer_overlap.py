"""Scores a passage by the share of the query's words that it contains. Needs no model; for tests and trials."""

import asyncio
from collections.abc import Sequence
from itertools import islice, repeat

from services.chassis.deadlines import Deadline
from services.inference.partial_scores import PartialScores
from services.inference.passages import MOST_PASSAGES, Split, count_words, cut_tokens, lowercase_words


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
            titles = repeat(0) if split is None else split.titles
            parts = map(_parts, passages, titles, repeat(split))
            shared = (max(len(query_words.intersection(words)) for words in part_words) for part_words in parts)
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

        def counted() -> tuple[int, ...]:
            query_length, *read = map(count_words, (query, *passages))
            return tuple(query_length + count for count in read)

        return await asyncio.to_thread(counted)

    async def close(self) -> None:
        """Does nothing: it owns no threads."""


def _parts(passage: str, title: int, split: Split | None) -> list[list[str]]:
    """Returns the words of each part of a passage; a word is a token."""
    if split is None:
        return [list(islice(lowercase_words(passage), OverlapScorer.max_tokens))]
    size = split.passages.tokens
    words = list(islice(lowercase_words(passage), MOST_PASSAGES * size))
    cut = cut_tokens(len(words), count_words(passage[:title]), size, split.passages.overlap, MOST_PASSAGES)
    return [words[: cut.front] + words[tokens.start : tokens.stop] for tokens in cut.ranges]
