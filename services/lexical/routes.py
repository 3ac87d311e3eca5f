"""Owns the routes of the lexical service: HTTP in and out, no logic."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeVar

from fastapi import APIRouter, Path, Query, Response

from services.chassis.app import router
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
from services.contracts.documents import (
    DeleteReport,
    Document,
    FetchedDocuments,
    FetchRequest,
    IdPage,
    IdPageRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
    WriteVersion,
)
from services.contracts.generations import Generation
from services.contracts.matches import CountRequest, Matches
from services.contracts.retrieval import BrowseAnswer, BrowseRequest, RetrievalAnswer, RetrievalRequest
from services.lexical.document_collector import ReadOptions
from services.lexical.engine import LexicalEngine
from services.lexical.highlighting import highlighted
from services.storage.generation_checks import refuse_other_build, refuse_published
from services.storage.write_order import Write, WriteOrder, WriteTurn, overtaken

Report = TypeVar("Report", IndexReport, DeleteReport)


class Changes:
    """Owns the order of writes to an engine. Every change goes through it."""

    def __init__(self, engine: LexicalEngine) -> None:
        self._engine = engine
        self._order = WriteOrder()

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None, owner: str | None
    ) -> CollectionState:
        """Begins an empty generation, or returns the existing one of this declaration and build."""
        return await self._order.change(generation, lambda: self._engine.begin(generation, declaration, build, owner))

    async def finish(self, generation: str, build: str | None) -> CollectionState:
        """Makes everything searchable. Returns the state with the digest of all documents."""
        await self._engine.finish(generation)
        digest = await self._engine.digest(generation)
        state = await self._engine.state(generation)
        refuse_other_build(generation, state.build, build)
        return state.model_copy(update={"digest": digest})

    async def publish(self, generation: str, build: str | None, publication: int | None) -> CollectionState:
        """Publishes a generation in place of the one that was published before."""

        async def work() -> CollectionState:
            await self._refuse_other_build(generation, build)
            return await self._engine.publish(generation, publication)

        return await self._order.change(generation, work)

    async def drop(self, generation: str, build: str | None, *, keep_published: bool) -> None:
        """Removes a generation. Raises Conflict if it is published and `keep_published` is set."""

        async def work() -> None:
            await self._refuse_other_build(generation, build)
            if keep_published:
                refuse_published(generation, published=(await self._engine.state(generation)).published)
            await self._engine.drop(generation)
            self._order.forget(generation)

        await self._order.change(generation, work)

    async def index(self, write: Write, documents: Sequence[Document]) -> IndexReport:
        """Adds or replaces documents, except those with a newer write."""

        async def work(turn: WriteTurn) -> IndexReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [document for document in documents if document.id not in turn.overtaken]
            report = IndexReport(indexed=0, unchanged=0)
            if timely:
                report = await self._engine.index(write.generation, timely, turn.version)
            return _with_overtaken(report, turn)

        return await self._order.write(write, [document.id for document in documents], work)

    async def delete(self, write: Write, ids: Sequence[str]) -> DeleteReport:
        """Removes documents, except those with a newer write."""

        async def work(turn: WriteTurn) -> DeleteReport:
            await self._refuse_other_build(write.generation, write.build)
            timely = [identity for identity in ids if identity not in turn.overtaken]
            report = DeleteReport(deleted=0)
            if timely:
                report = await self._engine.delete(write.generation, timely, turn.version)
            refused = {error.id for error in report.errors}
            turn.record_deleted(identity for identity in timely if identity not in refused)
            return _with_overtaken(report, turn)

        return await self._order.write(write, ids, work)

    async def _refuse_other_build(self, generation: str, build: str | None) -> None:
        if build is not None:
            refuse_other_build(generation, await self._engine.build(generation), build)


def _with_overtaken(report: Report, turn: WriteTurn) -> Report:
    latest = max((report.latest_version or 0, *turn.overtaken.values())) or None
    errors = (*report.errors, *map(overtaken, turn.overtaken))
    return report.model_copy(update={"errors": errors, "latest_version": latest})


InPath = Annotated[Generation, Path(description="A generation of a collection: `scifact@2`.")]
OfBuild = Annotated[BuildMark | None, Query(description="Whose build it is; 409 when it is another one's.")]
OfOwner = Annotated[OwnerId | None, Query(description="Who owns the collection; kept with a new generation.")]
Version = Annotated[WriteVersion | None, Query(description="The place in the order of writes; the newest without.")]
Place = Annotated[PublicationNumber | None, Query(description="Its place among the publications; the next without.")]
KeepPublished = Annotated[bool, Query(description="Answers 409 in place of removing the published generation.")]
JSON = "application/json"


def lexical_router(engine: LexicalEngine, clock: Callable[[], float] = time.time) -> APIRouter:
    """Returns the routes for collections, documents and searches of one engine. `clock`: that of the engine."""
    routes, changes = router(), Changes(engine)
    path = "/v1/collections/{generation}"

    @routes.get("/v1/collections")
    @handled("control", scope="internal", logged=False)
    async def states() -> CollectionStates:
        return CollectionStates(collections=await engine.states(), unusable=await engine.unusable(), now=clock())

    @routes.put(path)
    @handled("write", scope="internal")
    async def begin(
        generation: InPath, declaration: CollectionDeclaration, build: OfBuild = None, owner: OfOwner = None
    ) -> CollectionState:
        return await changes.begin(generation, declaration, build, owner)

    @routes.get(path)
    @handled("control", scope="internal")
    async def state(generation: InPath) -> CollectionState:
        return await engine.state(generation)

    @routes.delete(path, status_code=204)
    @handled("write", scope="internal")
    async def drop(generation: InPath, build: OfBuild = None, keep_published: KeepPublished = False) -> None:
        await changes.drop(generation, build, keep_published=keep_published)

    @routes.post(f"{path}/documents")
    @handled("write", scope="internal", slow=True)
    async def index(
        generation: InPath, batch: IndexRequest, version: Version = None, build: OfBuild = None
    ) -> IndexReport:
        with timed("index"):
            return await changes.index(Write(generation, version, build), batch.documents)

    @routes.post(f"{path}/documents/delete")
    @handled("write", scope="internal")
    async def delete(
        generation: InPath, request: IdsRequest, version: Version = None, build: OfBuild = None
    ) -> DeleteReport:
        return await changes.delete(Write(generation, version, build), request.ids)

    # Large answers (a thousand hits, whole documents) are serialised here: FastAPI would validate them again.
    @routes.post(f"{path}/documents/get", response_model=FetchedDocuments)
    @handled(scope="internal")
    async def get(generation: InPath, request: FetchRequest) -> Response:
        with timed("get"):
            answer = await engine.get(generation, request.ids, ReadOptions.from_request(request))
        if request.highlight is not None:
            with timed("highlight"):
                answer = await asyncio.to_thread(highlighted, answer, request.highlight, request.include)
        return Response(answer.model_dump_json(), media_type=JSON)

    @routes.post(f"{path}/documents/ids")
    @handled(scope="internal")
    async def ids(generation: InPath, request: IdPageRequest) -> IdPage:
        return await engine.ids(generation, request)

    @routes.post(f"{path}/finish")
    @handled("write", scope="internal", slow=True)
    async def finish(generation: InPath, build: OfBuild = None) -> CollectionState:
        with timed("finish"):
            return await changes.finish(generation, build)

    @routes.post(f"{path}/publish")
    @handled("write", scope="internal", slow=True)
    async def publish(generation: InPath, build: OfBuild = None, publication: Place = None) -> CollectionState:
        return await changes.publish(generation, build, publication)

    @routes.post(f"{path}/search", response_model=RetrievalAnswer)
    @handled(scope="internal")
    async def search(generation: InPath, request: RetrievalRequest) -> Response:
        if request.exact:
            raise BadInput("exact: a lexical search is always exact; leave it out (it is for vectors).")
        if request.beam is not None:
            raise BadInput("beam: a lexical search is always exact and has none; leave it out (it is for vectors).")
        with timed("bm25"):
            if request.include:
                hits, documents = await engine.search_with_documents(generation, request)
            else:
                hits, documents = await engine.search(generation, request), ()
        answer = RetrievalAnswer.model_construct(generation=generation, hits=hits, documents=documents)
        return Response(answer.model_dump_json(), media_type=JSON)

    @routes.post(f"{path}/browse")
    @handled(scope="internal")
    async def browse(generation: InPath, request: BrowseRequest) -> BrowseAnswer:
        with timed("browse"):
            return BrowseAnswer(ids=await engine.browse(generation, request))

    @routes.post(f"{path}/count")
    @handled(scope="internal")
    async def count(generation: InPath, request: CountRequest) -> Matches:
        with timed("count"):
            return await engine.count(generation, request)

    return routes
