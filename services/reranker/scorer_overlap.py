"""A scorer without weights: the share of the query's words that a passage holds. For tests and for trying out."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from itertools import islice

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded

_WORD = re.compile(r"\w+")


MOST_WORDS = 8_192


def _first_words(text: str) -> Iterator[str]:
    return (found.group() for found in islice(_WORD.finditer(text.lower()), MOST_WORDS))


class OverlapScorer:
    """Promises what Scorer promises; its quality is that of counting words."""

    model = "overlap@000000000000"
    weight = 0.5
    bounded = True
    max_tokens = MOST_WORDS

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """|words of both| / |words of the query|, 0 to 1."""
        if not deadline.remaining_ms:
            raise DeadlineExceeded("The deadline passed before scoring began; send a larger X-Deadline-Ms.")
        asked = frozenset(_first_words(query))
        scores = []
        for passage in passages:
            scores.append(len(asked.intersection(_first_words(passage))) / max(1, len(asked)))
            await asyncio.sleep(0)  # a thousand long passages take a second: others have their turn
        return tuple(scores)

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float | None, ...]:
        """All scores, or none when the deadline has passed: counting words takes no time worth dividing."""
        if not deadline.remaining_ms:
            return (None,) * len(passages)
        return await self.score(query, passages, deadline)

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Words of the query and of each passage."""
        asked = len(_WORD.findall(query))
        counts = []
        for passage in passages:
            counts.append(asked + len(_WORD.findall(passage)))
            await asyncio.sleep(0)
        return tuple(counts)

    async def close(self) -> None:
        """Owns nothing."""
