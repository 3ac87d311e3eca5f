"""Composes the dense service from its settings: the only module that knows the implementations of DenseEncoder."""

import time
from collections.abc import Callable

from fastapi import FastAPI

from services.chassis.requests.rendering import Wordings
from services.chassis.settings.configuration import ConfigurationError, variable
from services.dense.dialects.openai import openai_router
from services.dense.dialects.tei import tei_router
from services.dense.encoder import DenseEncoder
from services.dense.encoder_cached import CachedEncoder, QueryVectorCache
from services.dense.encoder_passages import PassageEncoder
from services.dense.settings import DenseSettings
from services.dialects.openai import models_router, openai_wording
from services.dialects.tei_errors import tei_wording
from services.dialects.vendor_requests import served_model
from services.vectorservice.compose import build_vector_app
from services.vectorservice.encoder import Encoder

MB = 1_000_000

# The wording of errors by path: each vendor's clients expect their own.
WORDINGS: Wordings = {"/v1/embeddings": openai_wording, "/v1/models": openai_wording, "/embed": tei_wording}


def open_encoder(settings: DenseSettings) -> DenseEncoder:
    """Opens the encoder that the settings name, with its cache. Raises what its constructor does."""
    encoder: DenseEncoder
    match settings.encoder:
        case "hashing":
            from services.dense.encoder_hashing import HashingEncoder

            encoder = HashingEncoder()
        case "openai" | "tei":
            from services.dense.encoder_hosted import HostedEncoder

            encoder = HostedEncoder(settings)
        case "onnx":
            from services.inference.glibc_memory import set_process_options
            from services.inference.open_model import Engine
            from services.inference.profiles import MODELS_FILE, load_encoder
            from services.inference.text_encoder import TextEncoder

            set_process_options()
            encoder = TextEncoder(
                load_encoder(MODELS_FILE, settings.model),
                settings.models / settings.model,
                Engine(settings.device, settings.threads),
            )
    if not settings.query_cache_mb:
        return encoder
    return CachedEncoder(encoder, QueryVectorCache(encoder.stamp, settings.query_cache_mb * MB))


def build_app(settings: DenseSettings, clock: Callable[[], float] = time.time) -> FastAPI:
    """Builds the ASGI app. `clock` returns Unix seconds."""

    def of_documents(encoder: DenseEncoder) -> Encoder:
        if (passages := settings.passages_of(encoder.max_tokens)) is None:
            return encoder
        if (tokens := passages.tokens) > (most := encoder.max_tokens):
            name = variable(type(settings), "passages")
            raise ConfigurationError(f"{name}.tokens: {settings.model} reads {most}; set at most that, not {tokens}.")
        return PassageEncoder(encoder, passages)

    dialects = (openai_router, tei_router, lambda encoder: models_router(served_model(encoder.stamp)))
    return build_vector_app(
        "dense", settings, lambda: open_encoder(settings), dialects, WORDINGS, clock, of_documents=of_documents
    )
