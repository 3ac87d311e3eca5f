"""The lane, the default deadline and the log line of every route, as its service declares them."""

from dataclasses import replace
from typing import Any

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from gateway.routes import collection_routes, pipeline_routes, search_routes
from gateway.search_page.routes import page_routes
from services.chassis.deadlines import MOST_MS, SEARCH_MS
from services.chassis.requests.handling import Handling, HandlingTable
from services.dense.dialects.openai import openai_router
from services.dense.dialects.tei import tei_router as tei_embed_router
from services.dialects.openai import models_router
from services.late_interaction.routes import score_router as stored_score_router
from services.lexical.routes import lexical_router
from services.reranker.dialects.cohere import cohere_v1_router, cohere_v2_router
from services.reranker.dialects.tei import tei_router
from services.reranker.routes import score_router
from services.sparse.dialects.tei import tei_sparse_router
from services.vectorservice.routes import collection_router, document_router, explanation_router

# Routers alone: nothing behind them is asked for a declaration.
NOTHING: Any = None
ROUTERS: dict[str, tuple[APIRouter, ...]] = {
    "gateway": (
        search_routes(NOTHING, NOTHING),
        pipeline_routes(NOTHING),
        collection_routes(NOTHING, NOTHING, NOTHING, NOTHING),
        page_routes(NOTHING, NOTHING, NOTHING, NOTHING),
    ),
    "lexical": (lexical_router(NOTHING),),
    "dense": (
        collection_router(NOTHING, NOTHING, NOTHING),
        document_router(NOTHING, NOTHING, NOTHING),
        openai_router(NOTHING),
        tei_embed_router(NOTHING),
        models_router("m"),
    ),
    "sparse": (
        collection_router(NOTHING, NOTHING, NOTHING),
        document_router(NOTHING, NOTHING, NOTHING),
        explanation_router(NOTHING, NOTHING),
        tei_sparse_router(NOTHING),
    ),
    "late_interaction": (
        collection_router(NOTHING, NOTHING, NOTHING),
        document_router(NOTHING, NOTHING, NOTHING),
        explanation_router(NOTHING, NOTHING),
        stored_score_router(NOTHING, NOTHING),
    ),
    "reranker": (
        score_router(NOTHING),
        cohere_v1_router(NOTHING),
        cohere_v2_router(NOTHING),
        tei_router(NOTHING),
        models_router("m"),
    ),
}
LISTING, CONTROL = Handling("control", logged=False), Handling("control")
WRITE, SLOW_WRITE = Handling("write"), Handling("write", default_ms=MOST_MS)
WORK, BULK = Handling(), Handling("bulk", default_ms=MOST_MS)
# The key that each needs is in tests/contract/test_route_keys.py.

OF_COLLECTIONS = [
    ("GET", "/v1/collections", LISTING),
    ("GET", "/v1/collections/c@1", CONTROL),
    ("PUT", "/v1/collections/c@1", WRITE),
    ("DELETE", "/v1/collections/c@1", WRITE),
    ("POST", "/v1/collections/c@1/documents", SLOW_WRITE),
    ("POST", "/v1/collections/c@1/documents/delete", WRITE),
    ("POST", "/v1/collections/c@1/publish", SLOW_WRITE),
    ("POST", "/v1/collections/c@1/search", WORK),
    ("GET", "/v1/collectionsx", WORK),
]
FINISHING = ("POST", "/v1/collections/c@1/finish", SLOW_WRITE)
EXPLAINING = ("POST", "/v1/collections/c@1/explain", WORK)
GETTING = ("POST", "/v1/collections/c@1/documents/get", WORK)
MODELS = ("GET", "/v1/models", CONTROL)
VECTORS = ("POST", "/v1/collections/c@1/documents/vectors", WORK)
EXPECTED = {
    "gateway": [
        *(
            (method, path, Handling("own", SEARCH_MS) if path.endswith("/search") else one)
            for method, path, one in OF_COLLECTIONS
        ),
        GETTING,
        ("GET", "/v1/collections/c/documents", WORK),
        ("GET", "/v1/collections/c/documents/a/b", WORK),
        ("DELETE", "/v1/collections/c/documents/a", WRITE),
        ("POST", "/v1/collections/c/documents/metadata", SLOW_WRITE),
        ("POST", "/v1/collections/c/discard", WRITE),
        ("POST", "/v1/collections/c/rollback", WRITE),
        ("GET", "/v1/pipelines", CONTROL),
        ("GET", "/v1/pipelines/bm25", CONTROL),
        ("POST", "/v1/events", WORK),
        ("POST", "/v1/pipelines/reload", CONTROL),
        ("GET", "/", Handling("own")),
        ("GET", "/docs", CONTROL),
        ("GET", "/page/page.css", Handling(logged=False)),
    ],
    "lexical": [
        *OF_COLLECTIONS,
        GETTING,
        ("POST", "/v1/collections/c@1/documents/ids", WORK),
        ("POST", "/v1/collections/c@1/browse", WORK),
        ("POST", "/v1/collections/c@1/count", WORK),
        FINISHING,
    ],
    "dense": [*OF_COLLECTIONS, FINISHING, VECTORS, ("POST", "/v1/embeddings", BULK), ("POST", "/embed", BULK), MODELS],
    "sparse": [*OF_COLLECTIONS, FINISHING, VECTORS, EXPLAINING, ("POST", "/embed_sparse", BULK)],
    "late_interaction": [*OF_COLLECTIONS, FINISHING, VECTORS, EXPLAINING, ("POST", "/v1/score", WORK)],
    "reranker": [
        ("POST", "/v1/score", Handling("own")),
        *(("POST", path, Handling("own", default_ms=MOST_MS)) for path in ("/v1/rerank", "/v2/rerank", "/rerank")),
        MODELS,
    ],
}


@pytest.mark.parametrize(
    ("service", "method", "path", "handling"), [(name, *row) for name, rows in EXPECTED.items() for row in rows]
)
def test_a_route_is_handled_as_declared(service: str, method: str, path: str, handling: Handling) -> None:
    table = HandlingTable()
    for router in ROUTERS[service]:
        table.add(router.routes)
    assert (
        replace(table.of_request({"method": method, "path": path, "headers": []}), scope=None, page=False) == handling
    )


@pytest.mark.parametrize("service", EXPECTED)
def test_every_route_is_among_the_expected_ones(service: str) -> None:
    routes = [route for router in ROUTERS[service] for route in router.routes if isinstance(route, APIRoute)]
    assert len(routes) == sum(len(router.routes) for router in ROUTERS[service])
    for route in routes:
        assert any(
            method in (route.methods or ()) and route.path_regex.match(path) for method, path, _ in EXPECTED[service]
        )
