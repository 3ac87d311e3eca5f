"""The composition root of the dense service: the only file that knows which encoder and which store."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from fastapi import APIRouter, FastAPI

from services.chassis import vendor_errors
from services.chassis.app import create_app
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.rendering import Wordings
from services.contracts.health import Check
from services.dense.dialects.openai import openai_router
from services.dense.dialects.tei import tei_router
from services.dense.encoder import DenseEncoder
from services.dense.settings import Settings
from services.storage.write_order import WriteOrder
from services.vectorservice.routes import collection_router, document_router
from services.vectorstore.store import VectorStore

logger = logging.getLogger(__name__)

# Whose clients call at which path.
WORDINGS: Wordings = {"/v1/embeddings": vendor_errors.openai, "/embed": vendor_errors.tei}


def open_encoder(settings: Settings) -> DenseEncoder:
    """The encoder that the settings name. Raises ModelError in one sentence."""
    match settings.encoder:
        case "hashing":
            from services.dense.encoder_hashing import HashingEncoder

            return HashingEncoder()
        case "onnx":
            from services.dense.encoder_onnx import OnnxEncoder
            from services.inference.model import Engine
            from services.inference.profiles import MODELS_FILE, load_encoder

            return OnnxEncoder(
                load_encoder(MODELS_FILE, settings.model),
                settings.models / settings.model,
                Engine(settings.device, settings.threads, library=settings.engine, arithmetic=settings.arithmetic),
            )


def open_store(settings: Settings) -> VectorStore:
    """The store that the settings name. Raises Unavailable when the directory of `edge` is in use."""
    match settings.store:
        case "edge":
            from services.storage.edge_directory import Limits
            from services.vectorstore.store_edge import EdgeStore

            return EdgeStore(settings.directory, Limits(settings.least_free_mb, settings.most_generations))
        case "qdrant":
            from services.vectorstore.qdrant_connection import QdrantServer
            from services.vectorstore.store_qdrant import QdrantStore

            assert settings.qdrant_url is not None  # Settings refuses it
            return QdrantStore.connect(
                QdrantServer(
                    url=settings.qdrant_url,
                    api_key=settings.qdrant_api_key,
                    ca_file=settings.qdrant_ca_file,
                    grpc_port=settings.grpc_port if settings.grpc else None,
                ),
                prefix=settings.prefix,
                most_generations=settings.most_generations,
            )


def build_app(settings: Settings) -> FastAPI:
    """The dense service as an ASGI app; the store is opened, the model opened and warmed with one query, at start."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async with AsyncExitStack() as stack:
            store = open_store(settings)
            stack.push_async_callback(store.close)
            encoder = open_encoder(settings)
            stack.push_async_callback(encoder.close)
            if not (check := await store.ready()).ok:
                logger.warning("The store cannot be used yet: %s", check.detail)
            await encoder.encode_query("warm up", Deadline.after_ms(30_000))

            async def readiness() -> tuple[Check, ...]:
                return (await store.ready(), Check(name="encoder", ok=True, detail=encoder.stamp["model"]))

            order = WriteOrder()
            own = (collection_router(store, encoder, order), document_router(store, encoder, order))
            yield (*own, openai_router(encoder), tei_router(encoder)), readiness

    return create_app("dense", settings, Instruments(), opened, WORDINGS)
