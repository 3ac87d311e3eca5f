"""Composes the sparse service from its settings: the only module that knows the implementations of SparseEncoder."""

import time
from collections.abc import Callable

from fastapi import FastAPI

from services.chassis.requests.rendering import Wordings
from services.dialects.tei_errors import tei_wording
from services.sparse.dialects.tei import tei_sparse_router
from services.sparse.encoder import SparseEncoder
from services.sparse.settings import SparseSettings
from services.vectorservice.compose import build_vector_app

# The wording of errors by path: the vendor's clients expect their own.
WORDINGS: Wordings = {"/embed_sparse": tei_wording}


def open_encoder(settings: SparseSettings) -> SparseEncoder:
    """Opens the encoder that the settings name. Raises ModelError."""
    match settings.encoder:
        case "hashing":
            from services.sparse.encoder_hashing import HashingTermEncoder

            return HashingTermEncoder()
        case "onnx":
            from services.inference.glibc_memory import set_process_options
            from services.inference.open_model import Engine
            from services.inference.profiles import MODELS_FILE, load_sparse_encoder
            from services.inference.sparse_encoder import SparseTextEncoder, TermLimits

            set_process_options()
            return SparseTextEncoder(
                load_sparse_encoder(MODELS_FILE, settings.model),
                settings.models / settings.model,
                Engine(settings.device, settings.threads),
                TermLimits(settings.document_terms, settings.query_terms),
                settings.idf,
            )


def build_app(settings: SparseSettings, clock: Callable[[], float] = time.time) -> FastAPI:
    """Builds the ASGI app. `clock` returns Unix seconds."""
    return build_vector_app("sparse", settings, lambda: open_encoder(settings), (tei_sparse_router,), WORDINGS, clock)
