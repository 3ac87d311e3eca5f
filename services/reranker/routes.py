"""Owns the route of the re-ranker's own wire. Other vendors' routes are in dialects/."""

from fastapi import APIRouter

from services.chassis.app import router
from services.chassis.deadlines import current_deadline
from services.chassis.reply_reserve import FOR_SCORES
from services.chassis.telemetry import timed
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from services.reranker.scorer import Scorer


def score_router(scorer: Scorer) -> APIRouter:
    """Returns the routes: `POST /v1/score`, which the gateway calls."""
    routes = router()

    @routes.post("/v1/score")
    async def score(asked: ScoreRequest) -> ScoreAnswer:
        with timed("score"):
            scores: tuple[float | None, ...]
            if asked.partial:
                scores = await scorer.score_until(asked.query, asked.passages, FOR_SCORES.before(current_deadline()))
            else:
                scores = await scorer.score(asked.query, asked.passages, current_deadline())
        return ScoreAnswer(model=scorer.model, weight=scorer.weight, scores=scores)

    return routes
