"""A scorer without weights: the share of the query's words that a passage holds. For tests and for trying out."""

import re
from collections.abc import Sequence

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded

_WORD = re.compile(r"\w+")


def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text.lower()))


class OverlapScorer:
    """Promises what Scorer promises; its quality is that of counting words."""

    model = "overlap@000000000000"
    weight = 0.5

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """|words of both| / |words of the query|, 0 to 1."""
        if not deadline.remaining_ms:
            raise DeadlineExceeded("The deadline passed before scoring began; send a larger X-Deadline-Ms.")
        asked = _words(query)
        return tuple(len(asked & _words(passage)) / max(1, len(asked)) for passage in passages)

    async def close(self) -> None:
        """Owns nothing."""
