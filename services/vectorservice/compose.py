"""Composes a vector service: opens store and encoder from the settings, and serves the routes over them.

A deployable provides its settings and its encoder; it does not know the engines.
"""

import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from types import MappingProxyType
from typing import TypeVar

from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.deadlines import Deadline
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.rendering import Wordings
from services.contracts.health import Check
from services.storage.edge_disk_space import DiskSpace
from services.storage.write_order import WriteOrder
from services.vectorservice.collections import unsearchable
from services.vectorservice.encoder import Encoder, ExplainingEncoder
from services.vectorservice.routes import collection_router, document_router, explanation_router
from services.vectorservice.settings import VectorServiceSettings
from services.vectorstore.store import VectorStore

E = TypeVar("E", bound=Encoder)
logger = logging.getLogger(__name__)


def open_store(settings: VectorServiceSettings, clock: Callable[[], float] = time.time) -> VectorStore:
    """Opens the store that the settings name. Raises Unavailable if the directory of `edge` is in use."""
    match settings.store:
        case "edge":
            from services.storage.edge_directory import EdgeLimits
            from services.vectorstore.store_edge import EdgeStore

            return EdgeStore(settings.directory, EdgeLimits(settings.least_free_mb, settings.most_generations), clock)
        case "qdrant":
            from services.vectorstore.qdrant_connection import QdrantClients, QdrantServer
            from services.vectorstore.store_qdrant import QdrantStore

            assert settings.qdrant_url is not None  # the settings refuse it
            server = QdrantServer(
                url=settings.qdrant_url,
                api_key=settings.qdrant_api_key,
                search_api_key=settings.qdrant_search_api_key,
                ca_file=settings.qdrant_ca_file,
            )
            parameters = settings.qdrant_parameters
            return QdrantStore(QdrantClients.of(server), settings.prefix, settings.most_generations, clock, parameters)
        case "elasticsearch":
            from services.storage.elasticsearch.client import ElasticsearchClients
            from services.vectorstore.store_elasticsearch import ElasticsearchStore

            clients = ElasticsearchClients.connect(settings, settings.most_at_once)
            quantisation = settings.qdrant_parameters.quantisation
            return ElasticsearchStore(clients, settings.prefix, settings.most_generations, clock, quantisation)


def build_vector_app(
    service: str,
    settings: VectorServiceSettings,
    open_encoder: Callable[[], E],
    dialects: Sequence[Callable[[E], APIRouter]] = (),
    wordings: Wordings = MappingProxyType({}),
    clock: Callable[[], float] = time.time,
    routers: Sequence[Callable[[VectorStore, E], APIRouter]] = (),
    of_documents: Callable[[E], Encoder] = lambda encoder: encoder,
) -> FastAPI:
    """Builds the ASGI app of a vector service. At start it opens the store and the encoder, and encodes one query.

    `dialects` build routers that need only the encoder, `routers` those that also need the store; `wordings` are the
    shapes of errors by path; `clock` returns Unix seconds. `of_documents` makes the encoder of documents from it.
    """

    instruments = Instruments()
    if settings.store == "edge":
        DiskSpace(settings.directory, settings.least_free_mb).show(instruments.registry)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        async with AsyncExitStack() as stack:
            store = open_store(settings, clock)
            stack.push_async_callback(store.close)
            of_texts = open_encoder()
            stack.push_async_callback(of_texts.close)
            encoder = of_documents(of_texts)
            if not (check := await store.ready()).ok:
                logger.warning("The store cannot be used yet: %s", check.detail)
            await encoder.encode_query("warm up", Deadline.after_ms(30_000))

            async def readiness() -> tuple[Check, ...]:
                stored, model = await store.ready(), encoder.stamp["model"]
                # Still ready: a new generation is built by this service, and only those are refused.
                if stored.ok and (others := await unsearchable(store, encoder)):
                    model += (
                        f"; another model or setting made {', '.join(others)}: build them again, or restore the setting"
                    )
                return stored, Check(name="encoder", ok=True, detail=model)

            order = WriteOrder()
            own = [collection_router(store, encoder, order, clock), document_router(store, encoder, order)]
            if isinstance(encoder, ExplainingEncoder):
                own.append(explanation_router(store, encoder))
            own += (build(store, of_texts) for build in routers)
            yield (*own, *(dialect(of_texts) for dialect in dialects)), readiness

    return create_app(service, settings, instruments, opened, wordings)
