"""Owns the route of the re-ranker's own wire. Other vendors' routes are in dialects/."""

from fastapi import APIRouter, Request

from services.chassis.admission.client_turns import set_client
from services.chassis.admission.lanes import client_of
from services.chassis.app import router
from services.chassis.deadlines import FOR_SCORES, current_deadline
from services.chassis.requests.callers import CLIENT_HEADER
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import timed
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from services.inference.partial_scores import PartialScores
from services.reranker.scorer import Scorer
from services.reranker.turns import slot


def score_router(scorer: Scorer) -> APIRouter:
    """Returns the routes: `POST /v1/score`, which the gateway calls."""
    routes = router()

    @routes.post("/v1/score", response_model_exclude_defaults=True)
    @handled("own", scope="internal")
    async def score(asked: ScoreRequest, received: Request) -> ScoreAnswer:
        # Only our own processes come here, and name whom they ask for.
        client = received.headers.get(CLIENT_HEADER) or client_of(received.scope)
        if asked.partial:
            set_client(client)
            # No slot: the scorer divides its time among these requests, and leaves out those for which too little is
            # left. Each takes all of its time, which a limit would only read as overload.
            with received.app.state.instruments.in_flight.track_inprogress(), timed("score"):
                given = await scorer.score_until(asked.query, asked.passages, FOR_SCORES.before(current_deadline()))
        else:
            async with slot(received, client, len(asked.passages)):
                with timed("score"):
                    given = PartialScores(await scorer.score(asked.query, asked.passages, current_deadline()))
        needs_ms = None if given.needs_s is None else round(given.needs_s * 1000, 3)
        return ScoreAnswer(model=scorer.model, weight=scorer.weight, scores=given.scores, needs_ms=needs_ms)

    return routes
