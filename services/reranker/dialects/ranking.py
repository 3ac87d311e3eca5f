"""Scores documents and sorts them, for all dialects. Does not know how a vendor words its answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import Request

from services.chassis.admission.lanes import client_of
from services.chassis.deadlines import current_deadline
from services.chassis.requests.telemetry import timed
from services.reranker.scorer import Scorer
from services.reranker.turns import slot


@dataclass(frozen=True, slots=True)
class RankedText:
    """One document: its position in the request, the model's own score, and that score mapped to [0, 1]."""

    index: int
    score: float
    relevance: float


async def rank(received: Request, scorer: Scorer, query: str, texts: Sequence[str]) -> list[RankedText]:
    """Scores all texts in their client's turn. Returns them best first; equal scores keep the order of the request.

    Raises Overloaded, and DeadlineExceeded unless all are scored in time: a vendor's answer cannot carry a document
    without a score.
    """
    async with slot(received, client_of(received.scope), len(texts)):
        with timed("score"):
            scores = await scorer.score(query, texts, current_deadline())
    found = [
        RankedText(index, score, score if scorer.bounded else sigmoid(score)) for index, score in enumerate(scores)
    ]
    return sorted(found, key=lambda one: (-one.score, one.index))


async def lengths(scorer: Scorer, query: str, texts: Sequence[str]) -> tuple[int, ...]:
    """Counts the tokens of each pair of query and text, before truncation."""
    with timed("count"):
        return await scorer.lengths(query, texts, current_deadline())


def sigmoid(logit: float) -> float:
    """Computes 1 / (1 + e^-logit) without overflow for large positive or negative values."""
    if logit >= 0:
        return 1 / (1 + math.exp(-logit))
    grown = math.exp(logit)
    return grown / (1 + grown)
