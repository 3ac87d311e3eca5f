"""Owns an in-memory re-ranker that follows the service's wire."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from fastapi import APIRouter, FastAPI, Request

from services.chassis.app import create_app, router
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.callers import CLIENT_HEADER
from services.chassis.requests.handling import handled
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.health import Check
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from tests.support.word_overlap import words


@dataclass
class RerankerStub:
    """A re-ranker that scores the share of the query's words in the passage, minus a little for each character.

    `most` is the number of passages that it scores if the request allows a partial answer; None means all.
    `needs_ms` is what such an answer says of it.
    """

    model: str = "overlap"
    weight: float = 1.0
    most: int | None = None
    needs_ms: float | None = None
    asked: list[ScoreRequest] = field(default_factory=list)
    clients: list[str | None] = field(default_factory=list)  # for whom it was asked

    def scores(self, request: ScoreRequest) -> tuple[float | None, ...]:
        self.asked.append(request)
        query = words(request.query)
        scores = [
            len(query.keys() & words(passage).keys()) / max(1, len(query)) - 0.001 * len(passage)
            for passage in request.passages
        ]
        reached = self.most if self.most is not None and request.partial else len(scores)
        return tuple(score if place < reached else None for place, score in enumerate(scores))

    def app(self) -> FastAPI:
        @asynccontextmanager
        async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
            routes = router()

            @routes.post("/v1/score")
            @handled(scope="search")
            async def score(request: ScoreRequest, received: Request) -> ScoreAnswer:
                self.clients.append(received.headers.get(CLIENT_HEADER))
                needs_ms = self.needs_ms if request.partial else None
                return ScoreAnswer(model=self.model, weight=self.weight, scores=self.scores(request), needs_ms=needs_ms)

            async def readiness() -> tuple[Check, ...]:
                return ()

            yield (routes,), readiness

        return create_app("reranker", ServiceSettings(port=0), Instruments(), opened)
