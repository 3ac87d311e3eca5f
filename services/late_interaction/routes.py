"""Owns the route that re-ranks: `POST /v1/score`, over the vectors that the service has stored."""

from fastapi import APIRouter

from services.chassis.app import router
from services.chassis.deadlines import FOR_SCORES, current_deadline
from services.chassis.requests.handling import handled
from services.contracts.rerank import ScoreAnswer, StoredScoreRequest
from services.late_interaction.scoring import WEIGHT, scores
from services.vectorservice.encoder import Encoder
from services.vectorstore.store import VectorStore


def score_router(store: VectorStore, encoder: Encoder) -> APIRouter:
    """Returns the route, which the gateway calls."""
    routes = router()

    @routes.post("/v1/score", response_model_exclude_defaults=True)
    @handled(scope="internal")
    async def score(request: StoredScoreRequest) -> ScoreAnswer:
        deadline = current_deadline()
        values = await scores(store, encoder, request, FOR_SCORES.before(deadline) if request.partial else deadline)
        model = f"{encoder.stamp['model']}@{encoder.stamp['weights_sha256'][:12]}"
        return ScoreAnswer(model=model, weight=WEIGHT, scores=values)

    return routes
