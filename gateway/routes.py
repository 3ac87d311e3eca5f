"""The gateway's routes: HTTP in and out, no logic."""

from contextlib import nullcontext
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import APIRouter, Header, Path, Query, Request, Response

from gateway.collections.collections import Collections
from gateway.collections.indexing import Indexing
from gateway.collections.publishing import Publishing
from gateway.online.journal import Journal
from gateway.search.catalog import Catalog
from gateway.search.execute import Executor
from gateway.search.long_answers import LongAnswers, Reading
from gateway.search.walked import reads_documents
from services.chassis.admission.lanes import client_of
from services.chassis.app import router
from services.chassis.deadlines import SEARCH_MS, current_deadline
from services.chassis.errors import BadInput, NotFound
from services.chassis.requests.callers import caller_of
from services.chassis.requests.handling import handled
from services.contracts.base import DocumentId, Name
from services.contracts.collections import (
    BeginCollection,
    CollectionBegun,
    CollectionList,
    CollectionView,
    DeleteRequest,
    DiscardRequest,
    DocumentsRequest,
    MetadataRequest,
    Published,
    PublishJob,
    PublishRequest,
)
from services.contracts.documents import Document, DocumentsAnswer, DocumentsPage, FanOutReport, IdsRequest
from services.contracts.online import EventsRequest, UnitId
from services.contracts.pipelines import PipelineChanges, PipelineList, PipelineView
from services.contracts.query import SearchAnswer, SearchRequest

CollectionName = Annotated[
    Name, Path(description="A collection: lower-case letters, digits, - and _, at most 64.", examples=["shop"])
]
After = Annotated[
    str | None, Query(min_length=1, max_length=520, description="The `following` of the page before; none begins.")
]
OneId = Annotated[DocumentId, Path(description="The id of a document; it may hold slashes.", examples=["kettle"])]
Most = Annotated[int, Query(ge=1, le=1_000, description="How many documents at most; large ones are fewer a page.")]
WithVectors = Annotated[bool, Query(description="Also the dense vectors of the documents, by backend.")]
Unit = Annotated[
    UnitId | None,
    Header(alias="X-Unit-Id", description="The user or session whose search it is, for an online experiment."),
]
PipelineName = Annotated[Name, Path(description="A pipeline: the name of its file.", examples=["hybrid"])]

STILL_PUBLISHING: dict[int | str, dict[str, Any]] = {
    202: {"model": PublishJob, "description": "It goes on; `publishing` at the address in Location has its state."}
}

# Part of a search's time for which it may wait to read documents.
WAITING_SHARE = 0.5


def search_routes(executor: Executor, long_answers: LongAnswers) -> APIRouter:
    """Returns the route for searches."""
    routes = router()

    @routes.post("/v1/collections/{collection}/search", response_model=SearchAnswer, tags=["search"])
    @handled("own", scope="search", default_ms=SEARCH_MS)
    async def search(
        collection: CollectionName, request: SearchRequest, received: Request, unit: Unit = None
    ) -> Response:
        """Returns the best documents for a query, by a pipeline."""
        client = client_of(received.scope)
        within_s = WAITING_SHARE * current_deadline().remaining_s
        reads = reads_documents(request)
        async with (
            long_answers.reading(client, within_s, searches=True) if reads else nullcontext(Reading()) as reading
        ):
            answer = await executor.search(collection, request, client, unit)
            # Serialised here: FastAPI would validate every hit a second time. Parts not asked for are left out.
            body = answer.model_dump_json(exclude_none=True)
            reading.length = len(body)
        return Response(body, media_type="application/json")

    return routes


def event_routes(journal: Journal | None) -> APIRouter:
    """Returns the route for what users did with answers."""
    routes = router()

    @routes.post("/v1/events", status_code=204, tags=["events"])
    @handled(scope="events")
    async def record_events(request: EventsRequest) -> None:
        """Keeps events (clicks, orders) for the verdict of online experiments."""
        if journal is None:
            raise BadInput("This gateway keeps no events; set GATEWAY_JOURNAL to a folder.")
        await journal.record(request.events)

    return routes


def pipeline_routes(catalog: Catalog) -> APIRouter:
    """Returns the routes that list and reload pipelines."""
    routes = router()

    @routes.get("/v1/pipelines", tags=["pipelines"])
    @handled("control", scope="search")
    async def list_pipelines() -> PipelineList:
        """Lists the pipelines, with their stages."""
        return catalog.views()

    @routes.post("/v1/pipelines/reload", tags=["pipelines"])
    @handled("control", scope="admin")
    async def reload_pipelines() -> PipelineChanges:
        """Reads the files of the pipelines again, and lists what changed."""
        return await catalog.reload()

    @routes.get("/v1/pipelines/{name}", tags=["pipelines"])
    @handled("control", scope="search")
    async def get_pipeline(name: PipelineName) -> PipelineView:
        """Returns one pipeline, with its stages."""
        return catalog.view(name)

    return routes


def collection_routes(
    collections: Collections, indexing: Indexing, publishing: Publishing, long_answers: LongAnswers
) -> APIRouter:
    """Returns the routes for collections and their documents."""
    routes = router()

    @routes.get("/v1/collections", tags=["collections"])
    @handled("control", scope="search", logged=False)
    async def list_collections() -> CollectionList:
        """Lists the collections, with their generations."""
        return await collections.all()

    @routes.get("/v1/collections/{collection}", tags=["collections"])
    @handled("control", scope="search")
    async def get_collection(collection: CollectionName, received: Request) -> CollectionView:
        """Returns one collection, with its generations."""
        return await collections.one(collection, caller_of(received.scope))

    @routes.put("/v1/collections/{collection}", tags=["collections"])
    @handled("write", scope="index")
    async def begin_collection(
        collection: CollectionName, received: Request, declaration: BeginCollection | None = None
    ) -> CollectionBegun:
        """Begins a generation of a collection, or continues the one that is being built."""
        return await collections.begin(collection, declaration or BeginCollection(), caller_of(received.scope))

    @routes.delete("/v1/collections/{collection}", status_code=204, tags=["collections"])
    @handled("write", scope="admin")
    async def delete_collection(collection: CollectionName) -> None:
        """Deletes a collection with all its generations."""
        await collections.remove(collection)

    @routes.post("/v1/collections/{collection}/publish", responses=STILL_PUBLISHING, tags=["collections"])
    @handled("write", scope="index", slow=True)
    async def publish(
        collection: CollectionName, received: Request, answer: Response, request: PublishRequest | None = None
    ) -> Published | PublishJob:
        """Finishes the generation that was built, and makes it live."""
        publication = await publishing.publish(collection, request or PublishRequest(), caller_of(received.scope))
        return _noted(publication, collection, answer)

    @routes.post("/v1/collections/{collection}/discard", status_code=204, tags=["collections"])
    @handled("write", scope="index")
    async def discard(collection: CollectionName, request: DiscardRequest, received: Request) -> None:
        """Removes the generation of a build that is given up."""
        await collections.discard(collection, request.build, caller_of(received.scope))

    @routes.post("/v1/collections/{collection}/rollback", responses=STILL_PUBLISHING, tags=["collections"])
    @handled("write", scope="index")
    async def roll_back(collection: CollectionName, answer: Response) -> Published | PublishJob:
        """Makes the previous generation live again."""
        return _noted(await publishing.roll_back(collection), collection, answer)

    @routes.post("/v1/collections/{collection}/documents", tags=["documents"])
    @handled("write", scope="index", slow=True)
    async def index_documents(collection: CollectionName, batch: DocumentsRequest, received: Request) -> FanOutReport:
        """Adds documents to a collection, or replaces them."""
        return await indexing.index(collection, batch, caller_of(received.scope))

    @routes.get("/v1/collections/{collection}/documents", response_model=DocumentsPage, tags=["documents"])
    @handled(scope="search")
    async def list_documents(
        collection: CollectionName, after: After = None, most: Most = 100, vectors: WithVectors = False
    ) -> Response:
        """Returns a page of all documents that searches see, and where the next page begins."""
        page = await indexing.list_documents(collection, after, most, vectors=vectors)
        return Response(page.model_dump_json(), media_type="application/json")  # as in a search: not validated twice

    @routes.post("/v1/collections/{collection}/documents/metadata", tags=["documents"])
    @handled("write", scope="index", slow=True)
    async def update_metadata(collection: CollectionName, batch: MetadataRequest, received: Request) -> FanOutReport:
        """Changes metadata of documents. Their texts stay, so that nothing is encoded."""
        return await indexing.update_metadata(collection, batch, caller_of(received.scope))

    @routes.post("/v1/collections/{collection}/documents/get", response_model=DocumentsAnswer, tags=["documents"])
    @handled(scope="search")
    async def get_documents(collection: CollectionName, ids: IdsRequest, received: Request) -> Response:
        """Returns documents by their ids."""
        async with long_answers.reading(client_of(received.scope), 0.0) as reading:  # none waits: it holds a slot
            body = (await indexing.get_documents(collection, ids)).model_dump_json()
            reading.length = len(body)
        return Response(body, media_type="application/json")  # as in a search: not validated twice

    @routes.post("/v1/collections/{collection}/documents/delete", tags=["documents"])
    @handled("write", scope="index")
    async def delete_documents(collection: CollectionName, request: DeleteRequest, received: Request) -> FanOutReport:
        """Deletes documents by their ids, or up to 1,000 that pass a filter."""
        return await indexing.delete_documents(collection, request, caller_of(received.scope))

    one_document = "/v1/collections/{collection}/documents/{document_id:path}"

    @routes.get(one_document, response_model=Document, tags=["documents"])
    @handled(scope="search")
    async def get_document(collection: CollectionName, document_id: OneId, received: Request) -> Response:
        """Returns one document."""
        ids = _id_in_path(received)
        async with long_answers.reading(client_of(received.scope), 0.0) as reading:
            answer = await indexing.get_documents(collection, ids)
            if not answer.documents:
                raise NotFound(f"Collection '{collection}' has no document {ids.ids[0]!r}.")
            body = answer.documents[0].model_dump_json()
            reading.length = len(body)
        return Response(body, media_type="application/json")

    @routes.delete(one_document, tags=["documents"])
    @handled("write", scope="index")
    async def delete_document(collection: CollectionName, document_id: OneId, received: Request) -> FanOutReport:
        """Deletes one document."""
        request = DeleteRequest(ids=_id_in_path(received).ids)
        return await indexing.delete_documents(collection, request, caller_of(received.scope))

    return routes


def _id_in_path(received: Request) -> IdsRequest:
    """Returns the id of one document as the path has it. Raises BadInput for what is no id.

    The path that routing sees has lost a slash at its end, and bytes that are not UTF-8: it may name another document.
    """
    raw: bytes = received.scope["raw_path"].partition(b"/documents/")[2]
    try:
        return IdsRequest(ids=(unquote_to_bytes(raw).decode(),))
    except ValueError as error:
        raise BadInput("document_id: must be the id in UTF-8, percent-encoded, of at most 512 bytes.") from error


def _noted(publication: Published | PublishJob, collection: str, answer: Response) -> Published | PublishJob:
    """Gives the answer the status 202 where a publication goes on."""
    if isinstance(publication, PublishJob):
        answer.status_code = 202
        answer.headers["location"] = f"/v1/collections/{collection}"
    return publication
