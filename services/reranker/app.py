"""The composition root of the re-ranker: the only file that knows which scorer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.contracts.health import Check
from services.reranker.routes import score_router
from services.reranker.scorer import Scorer
from services.reranker.settings import Settings


def open_scorer(settings: Settings) -> Scorer:
    """The scorer that the settings name. Raises ModelError in one sentence."""
    match settings.scorer:
        case "overlap":
            from services.reranker.scorer_overlap import OverlapScorer

            return OverlapScorer()
        case "onnx":
            from services.inference.model import Engine
            from services.inference.profiles import MODELS_FILE, load_cross_encoder
            from services.reranker.scorer_onnx import OnnxScorer

            profile = load_cross_encoder(MODELS_FILE, settings.model)
            engine = Engine(settings.device, settings.threads, settings.max_batch_tokens, settings.max_waiting_batches)
            return OnnxScorer(profile, settings.models / settings.model, engine)


def build_app(settings: Settings) -> FastAPI:
    """The re-ranker as an ASGI app; the model is opened, and warmed with one pair, when it starts."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        scorer = open_scorer(settings)
        try:
            await scorer.score("warm", ("up",), Deadline.after_ms(30_000))

            async def readiness() -> tuple[Check, ...]:
                return (Check(name="model", ok=True, detail=scorer.model),)

            yield (score_router(scorer),), readiness
        finally:
            await scorer.close()

    return create_app("reranker", settings, Instruments(), opened)
