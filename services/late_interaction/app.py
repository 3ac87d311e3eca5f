"""Composes the late-interaction service from its settings: the only module that knows its encoders."""

from pathlib import Path

from fastapi import FastAPI

from services.inference.profiles import MODELS_FILE
from services.late_interaction.routes import score_router
from services.late_interaction.settings import LateInteractionSettings
from services.vectorservice.compose import build_vector_app
from services.vectorservice.encoder import Encoder


def open_encoder(settings: LateInteractionSettings, models_file: Path = MODELS_FILE) -> Encoder:
    """Opens the encoder that the settings name, a model of `models_file`. Raises ModelError."""
    match settings.encoder:
        case "hashing":
            from services.late_interaction.encoder_hashing import HashingTokenEncoder

            return HashingTokenEncoder(settings.storage)
        case "onnx":
            from services.inference.glibc_memory import set_process_options
            from services.inference.open_model import Engine
            from services.inference.profiles import load_token_encoder
            from services.inference.token_encoder import TokenEncoder

            set_process_options()
            return TokenEncoder(
                load_token_encoder(models_file, settings.model),
                settings.models / settings.model,
                Engine(settings.device, settings.threads),
                query_tokens=settings.query_tokens,
                passage_tokens=settings.passage_tokens,
                storage=settings.storage,
                idf=settings.idf,
            )


def build_app(settings: LateInteractionSettings, models_file: Path = MODELS_FILE) -> FastAPI:
    """Builds the ASGI app."""
    return build_vector_app(
        "late_interaction", settings, lambda: open_encoder(settings, models_file), routers=(score_router,)
    )
