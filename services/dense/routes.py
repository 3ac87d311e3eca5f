"""HTTP in and out of the dense service."""

from fastapi import APIRouter, Response

from services.chassis.app import router
from services.chassis.deadlines import current_deadline
from services.contracts.base import Generation
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionStates
from services.contracts.documents import DeleteReport, IdsRequest, IndexReport, IndexRequest
from services.contracts.retrieval import RetrievalAnswer, RetrievalRequest
from services.dense import collections, indexing, searching
from services.dense.encoder import Encoder
from services.vectorstore.store import VectorStore


def collection_router(store: VectorStore, encoder: Encoder) -> APIRouter:
    """Generations: begun, listed, finished, published, removed."""
    routes = router()

    @routes.get("/v1/collections")
    async def listed() -> CollectionStates:
        return await collections.states(store)

    @routes.put("/v1/collections/{generation}")
    async def begin(generation: Generation, declaration: CollectionDeclaration) -> CollectionState:
        await collections.begin(store, encoder, generation, declaration)
        return await collections.state(store, generation)

    @routes.get("/v1/collections/{generation}")
    async def one(generation: Generation) -> CollectionState:
        return await collections.state(store, generation)

    @routes.delete("/v1/collections/{generation}", status_code=204)
    async def drop(generation: Generation) -> Response:
        await store.drop(generation)
        return Response(status_code=204)

    @routes.post("/v1/collections/{generation}/finish")
    async def finish(generation: Generation) -> CollectionState:
        await collections.opened(store, encoder, generation)
        await store.finish(generation)
        return await collections.state(store, generation)

    @routes.post("/v1/collections/{generation}/publish")
    async def publish(generation: Generation) -> CollectionState:
        await collections.opened(store, encoder, generation)
        await store.publish(generation)
        return await collections.state(store, generation)

    return routes


def document_router(store: VectorStore, encoder: Encoder) -> APIRouter:
    """Documents in and out of a generation, and searches over it."""
    routes = router()

    @routes.post("/v1/collections/{generation}/documents")
    async def index(generation: Generation, batch: IndexRequest) -> IndexReport:
        return await indexing.index(store, encoder, generation, batch.documents, current_deadline())

    @routes.post("/v1/collections/{generation}/documents/delete")
    async def delete(generation: Generation, asked: IdsRequest) -> DeleteReport:
        return DeleteReport(deleted=await store.delete(generation, asked.ids))

    @routes.post("/v1/collections/{generation}/search")
    async def search(generation: Generation, asked: RetrievalRequest) -> RetrievalAnswer:
        return await searching.search(store, encoder, generation, asked, current_deadline())

    return routes
