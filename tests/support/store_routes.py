"""Owns the routes of the stores in memory (backends.StoreStub). Made once: each app finds its store in its state."""

import time
from typing import TYPE_CHECKING

from fastapi import Request

from services.chassis.app import router
from services.chassis.errors import StampMismatch
from services.chassis.requests.handling import handled
from services.contracts.collections import CollectionDeclaration, CollectionState, CollectionStates
from services.contracts.documents import (
    DeleteReport,
    FetchedDocuments,
    FetchRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
)
from services.contracts.generations import name_of
from services.contracts.matches import CountRequest, Matches
from services.contracts.retrieval import BrowseAnswer, BrowseRequest, RetrievalAnswer, RetrievalRequest
from services.lexical.document_collector import ReadOptions
from services.storage.generation_checks import refuse_other_build, refuse_published

if TYPE_CHECKING:
    from tests.support.backends import StoreStub

STORE_ROUTES = router()
GENERATION = "/v1/collections/{generation}"


def store_of(request: Request) -> "StoreStub":
    store: StoreStub = request.app.state.store
    return store


@STORE_ROUTES.get("/v1/collections")
@handled(scope="internal")
async def collections(request: Request) -> CollectionStates:
    store = store_of(request)
    return CollectionStates(collections=tuple(store.state(generation) for generation in store.generations))


@STORE_ROUTES.put(GENERATION)
@handled(scope="internal")
async def declare(
    request: Request, generation: str, declaration: CollectionDeclaration, build: str | None = None
) -> CollectionState:
    store = store_of(request)
    held = store.begun(generation, declaration, build)
    if (held.declaration, held.model) != (declaration, store.model):
        raise StampMismatch(f"{generation} was made by model {held.model}, this is {store.model}.")
    refuse_other_build(generation, held.build, build)
    return store.state(generation)


@STORE_ROUTES.delete(GENERATION, status_code=204)
@handled(scope="internal")
async def remove(request: Request, generation: str, build: str | None = None, keep_published: bool = False) -> None:
    store = store_of(request)
    held = store.require_build(generation, build)
    refuse_published(generation, published=keep_published and held.published)
    del store.generations[generation]


@STORE_ROUTES.post(f"{GENERATION}/documents")
@handled(scope="internal")
async def index(
    request: Request, generation: str, batch: IndexRequest, version: int, build: str | None = None
) -> IndexReport:
    return store_of(request).index(generation, batch, version, build)


@STORE_ROUTES.post(f"{GENERATION}/documents/delete")
@handled(scope="internal")
async def delete(
    request: Request, generation: str, ids: IdsRequest, version: int, build: str | None = None
) -> DeleteReport:
    return store_of(request).delete(generation, ids, version, build)


@STORE_ROUTES.post(f"{GENERATION}/documents/get")
@handled(scope="internal")
async def get(request: Request, generation: str, asked: FetchRequest) -> FetchedDocuments:
    store = store_of(request)
    store.fetched.append(asked)
    return store.read(generation, asked.ids, ReadOptions.from_request(asked))


@STORE_ROUTES.post(f"{GENERATION}/finish")
@handled(scope="internal")
async def finish(request: Request, generation: str, build: str | None = None) -> CollectionState:
    store = store_of(request)
    store.require_build(generation, build)
    return store.state(generation).model_copy(update={"digest": store.digest(generation)})


@STORE_ROUTES.post(f"{GENERATION}/publish")
@handled(scope="internal")
async def publish(
    request: Request, generation: str, build: str | None = None, publication: int | None = None
) -> CollectionState:
    store = store_of(request)  # keeps no number, as a service of the release before
    if not store.require_build(generation, build).published:
        store.held(generation).published_at = time.time()
    for name, held in store.generations.items():
        if name_of(name) == name_of(generation):
            held.published = name == generation
    return store.state(generation)


@STORE_ROUTES.post(f"{GENERATION}/search")
@handled(scope="internal")
async def search(request: Request, generation: str, asked: RetrievalRequest) -> RetrievalAnswer:
    return store_of(request).search(generation, asked)


@STORE_ROUTES.post(f"{GENERATION}/browse")
@handled(scope="internal")
async def browse(request: Request, generation: str, asked: BrowseRequest) -> BrowseAnswer:
    return store_of(request).browse(generation, asked)


@STORE_ROUTES.post(f"{GENERATION}/count")
@handled(scope="internal")
async def count(request: Request, generation: str, asked: CountRequest) -> Matches:
    return store_of(request).count(generation, asked)
