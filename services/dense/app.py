"""The composition root of the dense service: the only file that knows which encoder."""

from fastapi import FastAPI

from services.chassis.rendering import Wordings
from services.dense.dialects.openai import openai_router, openai_wording
from services.dense.dialects.tei import tei_router
from services.dense.encoder import DenseEncoder
from services.dense.settings import DenseSettings
from services.dialects.tei_errors import tei_wording
from services.vectorservice.compose import build_vector_app

# Whose clients call at which path.
WORDINGS: Wordings = {"/v1/embeddings": openai_wording, "/embed": tei_wording}


def open_encoder(settings: DenseSettings) -> DenseEncoder:
    """The encoder that the settings name. Raises ModelError in one sentence."""
    match settings.encoder:
        case "hashing":
            from services.dense.encoder_hashing import HashingEncoder

            return HashingEncoder()
        case "onnx":
            from services.inference.embed import TextEncoder
            from services.inference.memory import keep
            from services.inference.model import Engine
            from services.inference.profiles import MODELS_FILE, load_encoder

            keep()
            return TextEncoder(
                load_encoder(MODELS_FILE, settings.model),
                settings.models / settings.model,
                Engine(settings.device, settings.threads, library=settings.engine, arithmetic=settings.arithmetic),
            )


def build_app(settings: DenseSettings) -> FastAPI:
    """The dense service as an ASGI app."""
    return build_vector_app(
        "dense", settings, lambda: open_encoder(settings), dialects=(openai_router, tei_router), wordings=WORDINGS
    )
