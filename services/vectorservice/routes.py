"""Owns the routes of a vector service. Collections and indexing do the work; the store owns order and ties."""

import time
from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from services.chassis.app import router
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import timed
from services.contracts.collections import (
    BuildMark,
    CollectionDeclaration,
    CollectionState,
    CollectionStates,
    OwnerId,
    PublicationNumber,
)
from services.contracts.documents import DeleteReport, IdsRequest, IndexReport, IndexRequest, WriteVersion
from services.contracts.explanation import ExplainAnswer, ExplainRequest, Explanation
from services.contracts.generations import Generation
from services.contracts.retrieval import DEFAULT_BEAM, RetrievalAnswer, RetrievalRequest
from services.contracts.vectors import VectorsAnswer, VectorsRequest
from services.storage.fields import requirements_of
from services.storage.write_order import Write, WriteOrder
from services.vectorservice import collections, indexing
from services.vectorservice.encoder import Encoder, ExplainingEncoder, passage_hashes
from services.vectorservice.given_vectors import read_vectors
from services.vectorstore.store import GenerationSpec, VectorQuery, VectorStore

OfBuild = Annotated[BuildMark | None, Query(description="Whose build it is; 409 when it is another one's.")]
OfOwner = Annotated[OwnerId | None, Query(description="Who owns the collection; kept with a new generation.")]
Version = Annotated[WriteVersion | None, Query(description="The place in the order of writes; the newest without.")]
Place = Annotated[PublicationNumber | None, Query(description="Its place among the publications; the next without.")]
KeepPublished = Annotated[bool, Query(description="Answers 409 in place of removing the published generation.")]


def collection_router(
    store: VectorStore, encoder: Encoder, order: WriteOrder, clock: Callable[[], float] = time.time
) -> APIRouter:
    """Returns the routes that create, list, finish, publish and remove generations. `clock`: that of the store."""
    routes = router()

    @routes.get("/v1/collections")
    @handled("control", scope="internal", logged=False)
    async def listed() -> CollectionStates:
        return await collections.states(store, clock)

    @routes.put("/v1/collections/{generation}")
    @handled("write", scope="internal")
    async def begin(
        generation: Generation, declaration: CollectionDeclaration, build: OfBuild = None, owner: OfOwner = None
    ) -> CollectionState:
        stamp = collections.stamp_of(store, encoder)
        spec = GenerationSpec(generation, encoder.representation, stamp, declaration, build, owner)
        return await order.change(generation, lambda: collections.begin(store, spec))

    @routes.get("/v1/collections/{generation}")
    @handled("control", scope="internal")
    async def state(generation: Generation) -> CollectionState:
        return await collections.state(store, generation)

    @routes.delete("/v1/collections/{generation}", status_code=204)
    @handled("write", scope="internal")
    async def drop(generation: Generation, build: OfBuild = None, keep_published: KeepPublished = False) -> Response:
        await collections.drop(store, order, generation, build, keep_published=keep_published)
        return Response(status_code=204)

    @routes.post("/v1/collections/{generation}/finish")
    @handled("write", scope="internal", slow=True)
    async def finish(generation: Generation, build: OfBuild = None) -> CollectionState:
        await collections.require_own(store, encoder, generation)
        return await collections.finish(store, generation, build)

    @routes.post("/v1/collections/{generation}/publish")
    @handled("write", scope="internal", slow=True)
    async def publish(generation: Generation, build: OfBuild = None, publication: Place = None) -> CollectionState:
        await collections.require_own(store, encoder, generation)
        return await order.change(generation, lambda: collections.publish(store, generation, build, publication))

    return routes


def document_router(store: VectorStore, encoder: Encoder, order: WriteOrder) -> APIRouter:
    """Returns the routes that index, delete and search documents of a generation."""
    routes = router()

    @routes.post("/v1/collections/{generation}/documents")
    @handled("write", scope="internal", slow=True)
    async def index(
        generation: Generation, batch: IndexRequest, version: Version = None, build: OfBuild = None
    ) -> IndexReport:
        write = Write(generation, version, build)
        return await indexing.index(store, encoder, order, write, batch.documents, current_deadline())

    @routes.post("/v1/collections/{generation}/documents/delete")
    @handled("write", scope="internal")
    async def delete(
        generation: Generation, request: IdsRequest, version: Version = None, build: OfBuild = None
    ) -> DeleteReport:
        return await indexing.delete(store, order, Write(generation, version, build), request.ids)

    @routes.post("/v1/collections/{generation}/documents/vectors", response_model=VectorsAnswer)
    @handled(scope="internal")
    async def vectors(generation: Generation, request: VectorsRequest) -> Response:
        with timed("vectors"):
            answer = await read_vectors(store, generation, request.ids)
        return Response(answer.model_dump_json(), media_type="application/json")

    @routes.post("/v1/collections/{generation}/search", response_model=RetrievalAnswer)
    @handled(scope="internal")
    async def search(generation: Generation, request: RetrievalRequest) -> Response:
        if request.preset is not None:
            raise BadInput("preset: a vector backend has no lexical presets; leave it out.")
        if request.include:
            raise BadInput("include: a vector backend stores no documents; leave it out.")
        spec = await collections.require_own(store, encoder, generation)
        where = requirements_of(request.filter, spec.declaration.metadata)
        with timed("encode"):
            vector = await encoder.encode_query(request.query, current_deadline())
        beam = DEFAULT_BEAM if request.beam is None else request.beam
        with timed("ann"):
            hits = await store.search(
                generation, VectorQuery(vector, request.top, request.exact, beam, where, request.exclude_ids)
            )
        answer = RetrievalAnswer(generation=generation, hits=hits)
        # Serialised here: FastAPI would turn every hit into a dict first.
        return Response(answer.model_dump_json(), media_type="application/json")

    return routes


def explanation_router(store: VectorStore, encoder: ExplainingEncoder) -> APIRouter:
    """Returns the route that explains the scores of documents of a generation."""
    routes = router()

    @routes.post("/v1/collections/{generation}/explain")
    @handled(scope="internal")
    async def explain(generation: Generation, request: ExplainRequest) -> ExplainAnswer:
        await collections.require_own(store, encoder, generation)
        stored = await store.stored(generation, [document.id for document in request.documents], vectors=True)
        hashes = passage_hashes(encoder, request.documents)
        # A passage that was replaced meanwhile is not the one that the hit was scored by.
        known = [
            (document, point.vector)
            for document in request.documents
            if (point := stored.get(document.id)) is not None
            and point.vector is not None
            and point.passage_hash == hashes[document.id]
        ]
        passages, vectors = [document.passage for document, _ in known], [vector for _, vector in known]
        with timed("explain"):
            explained = await encoder.explain(request.query, passages, vectors, current_deadline())
        pairs = zip(known, explained, strict=True)
        explanations = [Explanation(id=document.id, matches=matches) for (document, _), matches in pairs]
        return ExplainAnswer(generation=generation, explanations=tuple(explanations))

    return routes
