"""Composes the re-ranker from its settings: the only module that knows the implementations of Scorer."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.rendering import Wordings
from services.contracts.health import Check
from services.dialects.openai import models_router, openai_wording
from services.dialects.tei_errors import tei_wording
from services.inference.profiles import MODELS_FILE, TOKENIZER, load_cross_encoder
from services.reranker.dialects.cohere import cohere_or_jina_wording, cohere_v1_router, cohere_v2_router, cohere_wording
from services.reranker.dialects.tei import tei_router
from services.reranker.routes import score_router
from services.reranker.scorer import Scorer
from services.reranker.scorer_cached import CachedScorer, ScoreCache
from services.reranker.settings import RerankerSettings

MB = 1_000_000
# Four pairs of about a hundred tokens, scored at start: they load the model into memory and measure its speed, or show
# that an API is there and takes the key.
WARM_UP = ("the chain slips under load because the cassette is worn and its teeth are hooked " * 8,) * 4

# The wording of errors by path: each vendor's clients expect their own.
WORDINGS: Wordings = {
    "/v1/rerank": cohere_or_jina_wording,
    "/v2/rerank": cohere_wording,
    "/rerank": tei_wording,
    "/v1/models": openai_wording,
}


def open_scorer(settings: RerankerSettings, models_file: Path = MODELS_FILE) -> Scorer:
    """Opens the scorer that the settings name, a model of `models_file` or an API, with its caches.

    From then on, memory that a model frees stays with this process. Raises ModelError, ConfigurationError.
    """
    scorer: Scorer
    match settings.scorer:
        case "overlap":
            from services.reranker.scorer_overlap import OverlapScorer

            scorer, stamp = OverlapScorer(), ""
        case "cohere" | "tei":
            from services.reranker.scorer_hosted import HostedScorer

            scorer, stamp = HostedScorer(settings), ""
        case "onnx":
            from services.inference.glibc_memory import set_process_options
            from services.inference.open_model import Engine
            from services.inference.pair_scorer import PairScorer

            set_process_options()
            profile = load_cross_encoder(models_file, settings.model)
            engine = Engine(settings.device, settings.threads, settings.max_batch_tokens, settings.max_waiting_batches)
            folder = settings.models / settings.model
            scorer = PairScorer(profile, folder, engine, passage_bytes=settings.passage_cache_mb * MB)
            stamp = f"{profile.computation()} {profile.files[TOKENIZER]} {profile.max_tokens}"
    if not settings.score_cache_mb:
        return scorer
    return CachedScorer(scorer, ScoreCache(f"{scorer.model} {stamp}", settings.score_cache_mb * MB))


def build_app(settings: RerankerSettings, models_file: Path = MODELS_FILE) -> FastAPI:
    """Builds the ASGI app. At start it opens the model and scores WARM_UP."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        scorer = open_scorer(settings, models_file)
        try:
            await scorer.score("why does my chain slip", WARM_UP, Deadline.after_ms(30_000))

            async def readiness() -> tuple[Check, ...]:
                return (Check(name="model", ok=True, detail=scorer.model),)

            dialects = (
                cohere_v1_router(scorer),
                cohere_v2_router(scorer),
                tei_router(scorer),
                models_router(scorer.model),
            )
            yield (score_router(scorer), *dialects), readiness
        finally:
            await scorer.close()

    return create_app("reranker", settings, Instruments(), opened, WORDINGS)
