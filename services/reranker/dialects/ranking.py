"""What all dialects share: documents scored, and put in the order in which vendors answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from services.chassis.deadlines import current_deadline
from services.chassis.telemetry import timed
from services.reranker.scorer import Scorer


@dataclass(frozen=True, slots=True)
class Ranked:
    """A document by its place among those sent: the model's own score, and the same as a share between 0 and 1."""

    index: int
    score: float
    relevance: float


async def ranked(scorer: Scorer, query: str, texts: Sequence[str]) -> list[Ranked]:
    """All of them, best first, equal ones as they were sent.

    A vendor's answer has no place for a document without a score: what is not done by the deadline is DeadlineExceeded.
    """
    with timed("score"):
        scores = await scorer.score(query, texts, current_deadline())
    found = [Ranked(index, score, score if scorer.bounded else sigmoid(score)) for index, score in enumerate(scores)]
    return sorted(found, key=lambda one: (-one.score, one.index))


async def lengths(scorer: Scorer, query: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Tokens of the query with each document, before anything is cut."""
    with timed("count"):
        return await scorer.lengths(query, texts, current_deadline())


def sigmoid(logit: float) -> float:
    """1 / (1 + e^-logit), in the form that overflows on neither side."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1 + grown)
