"""Owns the route of the re-ranker's own wire. Other vendors' routes are in dialects/."""

from fastapi import APIRouter, Request, Response

from services.chassis.admission.client_turns import set_client
from services.chassis.admission.lanes import client_of
from services.chassis.app import router
from services.chassis.deadlines import FOR_SCORES, current_deadline
from services.chassis.errors import BadInput
from services.chassis.requests.callers import CLIENT_HEADER
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import timed
from services.contracts.passages import LEAST_TOKENS
from services.contracts.problem import FieldError
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from services.inference.partial_scores import PartialScores
from services.inference.passages import CHARACTERS_PER_TOKEN, MOST_PASSAGES, Split
from services.reranker.scorer import Scorer
from services.reranker.turns import slot


def score_router(scorer: Scorer) -> APIRouter:
    """Returns the routes: `POST /v1/score`, which the gateway calls."""
    routes = router()

    @routes.post("/v1/score", response_model=ScoreAnswer)
    @handled("own", scope="internal")
    async def score(request: ScoreRequest, received: Request) -> Response:
        split = _split(request, scorer.max_tokens)
        # Only our own processes call this route, and name the client for whom they call.
        client = received.headers.get(CLIENT_HEADER) or client_of(received.scope)
        if request.partial:
            set_client(client)
            # No slot: the scorer divides its time among these requests, and leaves out those for which too little is
            # left. Each takes all of its time, which a limit would only read as overload.
            with received.app.state.instruments.in_flight.track_inprogress(), timed("score"):
                until = FOR_SCORES.before(current_deadline())
                given = await scorer.score_until(request.query, request.passages, until, split)
        else:
            async with slot(received, client, _read_passages(request, scorer.max_tokens)):
                with timed("score"):
                    scores = await scorer.score(request.query, request.passages, current_deadline(), split)
                    given = PartialScores(scores)
        needs_ms = None if given.needs_s is None else round(given.needs_s * 1000, 3)
        answer = ScoreAnswer(model=scorer.model, weight=scorer.weight, scores=given.scores, needs_ms=needs_ms)
        return Response(answer.model_dump_json(exclude_defaults=True), media_type="application/json")

    return routes


def _split(request: ScoreRequest, max_tokens: int) -> Split | None:
    """Returns how the passages are cut. Raises BadInput for parts that the model does not read whole."""
    if request.split is None:
        return None
    if request.split.tokens > max_tokens:
        allowed = f"this model reads parts of {LEAST_TOKENS} to {max_tokens} tokens, not {request.split.tokens}"
        raise BadInput(
            f"split.tokens (in a pipeline, passages.tokens): {allowed}.",
            errors=(FieldError(field="split.tokens", message=allowed),),
        )
    return Split(request.split, request.title_lengths or (0,) * len(request.passages))


def _read_passages(request: ScoreRequest, max_tokens: int) -> int:
    """Estimates how many passages of the model's length have as many tokens as all parts together."""
    if request.split is None:
        return len(request.passages)
    most = MOST_PASSAGES * request.split.tokens
    tokens = (max(1, min(most, len(passage) // CHARACTERS_PER_TOKEN)) for passage in request.passages)
    return sum(-(-count // max_tokens) for count in tokens)
