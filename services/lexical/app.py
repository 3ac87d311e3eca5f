"""Composes the lexical service from its settings: the only module that knows its engines."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.contracts.health import Check
from services.lexical.engine import LexicalEngine
from services.lexical.routes import lexical_router
from services.lexical.settings import LexicalSettings
from services.storage.edge_disk_space import DiskSpace


def open_engine(settings: LexicalSettings, clock: Callable[[], float] = time.time) -> LexicalEngine:
    """Opens the engine that the settings name. Raises Unavailable if the directory of `edge` is in use."""
    match settings.engine:
        case "edge":
            from services.lexical.engine_edge import EdgeEngine
            from services.storage.edge_directory import EdgeLimits

            return EdgeEngine(settings.directory, EdgeLimits(settings.least_free_mb, settings.most_generations), clock)
        case "elasticsearch":
            from services.lexical.elasticsearch_mapping import ShardCounts
            from services.lexical.engine_elasticsearch import ElasticsearchEngine
            from services.storage.elasticsearch.client import ElasticsearchClients

            clients = ElasticsearchClients.connect(settings, settings.most_at_once)
            counts = ShardCounts(settings.shards, settings.replicas)
            return ElasticsearchEngine(clients, settings.index_prefix, counts, settings.most_generations, clock)


def build_app(settings: LexicalSettings, clock: Callable[[], float] = time.time) -> FastAPI:
    """Builds the service's app, which opens its engine at the start and closes it at the end.

    `clock` returns Unix seconds.
    """

    instruments = Instruments()
    if settings.engine == "edge":
        DiskSpace(settings.directory, settings.least_free_mb).show(instruments.registry)

    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        engine = open_engine(settings, clock)

        async def readiness() -> tuple[Check, ...]:
            return (await engine.check(),)

        try:
            yield (lexical_router(engine, clock),), readiness
        finally:
            await engine.close()

    return create_app("lexical", settings, instruments, opened)
