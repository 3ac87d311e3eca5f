"""Checks, scores and sorts documents, for all dialects. Does not know how a vendor words its answer."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from fastapi import Request
from pydantic import model_validator
from pydantic_core import PydanticSerializationError, to_json

from services.chassis.admission.lanes import client_of
from services.chassis.deadlines import current_deadline
from services.chassis.requests.telemetry import timed
from services.contracts.base import Wire
from services.reranker.scorer import Scorer
from services.reranker.turns import slot


class VendorRequest(Wire):
    """Base of the requests. Refuses lone surrogates: JSON can escape them, but an answer in UTF-8 cannot hold them."""

    @model_validator(mode="after")
    def _refuse_lone_surrogates(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError(f"{self._faulty_place()}: must not contain lone surrogates") from error
        return self

    def _faulty_place(self) -> str:
        for name, value in self:
            for place, item in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
                try:
                    to_json(item)
                except PydanticSerializationError:
                    return name if place is None else f"{name}.{place}"
        return "body"


@dataclass(frozen=True, slots=True)
class RankedText:
    """One document: its position in the request, the model's own score, and that score mapped to [0, 1]."""

    index: int
    score: float
    relevance: float


async def rank(received: Request, scorer: Scorer, query: str, texts: Sequence[str]) -> list[RankedText]:
    """Scores all texts in their client's turn. Returns them best first; equal scores keep the order of the request.

    Raises Overloaded, and DeadlineExceeded unless all are scored in time: a vendor's answer needs every score.
    """
    async with slot(received, client_of(received.scope), len(texts)):
        with timed("score"):
            scores = await scorer.score(query, texts, current_deadline())
    ranked = [
        RankedText(index, score, score if scorer.bounded else sigmoid(score)) for index, score in enumerate(scores)
    ]
    return sorted(ranked, key=lambda text: (-text.score, text.index))


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
