"""Indexes, deletes and reads documents in a collection's backends. Reports each, so that partial success is visible.

A write goes to one generation, and from the live one to the builds above it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from gateway.backends import wire
from gateway.backends.budget import Budget
from gateway.backends.failures import BackendFailed, advice, as_problem
from gateway.backends.wire import Backend, Backends, on_each
from gateway.collections.document_pages import read_page
from gateway.collections.generations import Generations
from gateway.collections.history import History, expect_own_build
from gateway.collections.publishing import target_generation
from gateway.collections.write_order import WriteClock, WritePauses
from gateway.families import FAMILIES, family_names
from services.chassis.deadlines import current_deadline
from services.chassis.errors import AnswerTooLarge, BadInput, NotHeld, Unavailable
from services.contracts.collections import CollectionState, DeleteRequest, DocumentsRequest, MetadataRequest
from services.contracts.documents import (
    DeleteReport,
    Document,
    DocumentsAnswer,
    DocumentsPage,
    FanOutReport,
    FetchRequest,
    IdPageRequest,
    IdsRequest,
    IndexReport,
    IndexRequest,
    ItemError,
    SentDocument,
    ServiceOutcome,
)
from services.contracts.filters import Filter
from services.contracts.generations import name_of
from services.keys.key_ring import Principal

# How long beginning a build may take from its first backend to its last. After that it counts as abandoned and no write
# waits for it: the PUT that completes it is answered after all writes that skipped it.
COMPLETION_S, COMPLETION_POLL_S = 2.0, 0.05

# Bounds the report: each of 256 documents may have fields of its own.
MOST_NAMES = 32

Report = TypeVar("Report", IndexReport, DeleteReport)


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The target of one call of a write: generation, build (None: any), version, and the seconds that it may take."""

    generation: str
    build: str | None
    version: int
    timeout_s: float


class Indexing:
    """Writes to all backends of a collection at once. Sending a write again recovers from a failure.

    Every write gets a version that all services compare, so that writes which arrive in different orders have the same
    result everywhere.
    """

    def __init__(self, backends: Backends, generations: Generations, pauses: WritePauses, clock: WriteClock) -> None:
        self._backends = backends
        self._generations = generations
        self._pauses = pauses
        self._clock = clock
        # By collection: builds that some backends lack, and when this was first seen.
        self._incomplete_builds: dict[str, dict[str, float]] = {}

    async def index(self, name: str, batch: DocumentsRequest, caller: Principal | None) -> FanOutReport:
        """Indexes a batch in every backend of the collection. Raises BadInput for vectors of a backend that takes none,
        else only if all of them failed."""
        # Waits while a publish compares the services.
        async with self._pauses.write(name):
            return await self._index(name, batch, caller)

    async def update_metadata(self, name: str, batch: MetadataRequest, caller: Principal | None) -> FanOutReport:
        """Changes metadata alone: reads the documents of each generation (texts of a build may be newer, or missing)
        and indexes them again, which encodes no passage."""
        budget, store = Budget.within(current_deadline()), self._document_store()
        changes = {document.id: document.metadata for document in batch.documents}
        wanted = FetchRequest(ids=tuple(changes))

        async def read(generation: str) -> DocumentsAnswer:
            return await wire.fetch_documents(store, generation, wanted, budget.remaining_s())

        def change(answer: DocumentsAnswer) -> tuple[SentDocument, ...]:
            return tuple(
                SentDocument.model_validate(
                    {**dict(document), "metadata": {**document.metadata, **changes[document.id]}}
                )
                for document in answer.documents
            )

        async with self._ordered_write(name) as version:
            history = await self._generations.fetch_history(name, budget.remaining_s())
            target = target_generation(history, batch.build)
            try:
                answer = await read(target)
            except BackendFailed as failure:
                problem = as_problem(failure)
                if isinstance(problem, AnswerTooLarge):  # the store's own advice is for searches
                    problem = AnswerTooLarge("These documents are too large to be read together: send fewer at once.")
                raise problem from failure
            if not answer.documents:
                return FanOutReport(collection=target, complete=True, documents=0, missing=answer.missing, services=())
            request = DocumentsRequest(documents=change(answer), build=batch.build)
            reading: dict[str, asyncio.Task[DocumentsAnswer]] = {}  # once for all backends

            async def documents_of(generation: str) -> tuple[SentDocument, ...]:
                if generation == target:
                    return request.documents
                if generation not in reading:
                    reading[generation] = asyncio.create_task(read(generation))
                return change(await reading[generation])

            report = await self._index(name, request, caller, version, documents_of)
            return report.model_copy(update={"missing": answer.missing})

    async def _index(
        self,
        name: str,
        batch: DocumentsRequest,
        caller: Principal | None,
        version: int | None = None,
        documents_of: Callable[[str], Awaitable[tuple[SentDocument, ...]]] | None = None,
    ) -> FanOutReport:
        """Indexes the batch; with `documents_of`, in each generation the documents that this returns for it."""
        given = frozenset(name for document in batch.documents for name in document.vectors)

        async def index(backend: Backend, part: WriteTarget) -> IndexReport:
            sent = batch.documents if documents_of is None else await documents_of(part.generation)
            if not sent:
                return IndexReport(indexed=0, unchanged=0)
            documents = _with_own_vectors(sent, backend.name) if given else sent
            request = IndexRequest.model_construct(documents=documents)
            return await wire.index(backend, part.generation, request, part.version, part.build, part.timeout_s)

        report = await self._write(name, batch.build, caller, len(batch.documents), index, given, version)
        states = self._generations.history(name).states
        return report.model_copy(
            update={
                "stripped_characters": sum(document.stripped for document in batch.documents),
                "undeclared_metadata": _undeclared_fields(batch.documents, report.collection, states),
            }
        )

    async def delete_documents(self, name: str, request: DeleteRequest, caller: Principal | None) -> FanOutReport:
        """Deletes documents from every backend of the collection. Raises only if all of them failed."""
        if request.filter is not None:
            return await self._delete_matching(name, request.filter, request.build, caller)
        async with self._pauses.write(name):
            return await self._delete(name, request.ids or (), request.build, caller)

    async def _delete_matching(
        self, name: str, wanted: Filter, build: str | None, caller: Principal | None
    ) -> FanOutReport:
        """Deletes the first documents that pass a filter. A document that is written meanwhile stays."""
        budget, store = Budget.within(current_deadline()), self._document_store()
        async with self._ordered_write(name) as version:
            target = target_generation(await self._generations.fetch_history(name, budget.remaining_s()), build)
            try:
                page = await wire.list_ids(store, target, IdPageRequest(filter=wanted), budget.remaining_s())
            except BackendFailed as failure:
                raise as_problem(failure) from failure
            if not page.ids:
                return FanOutReport(collection=target, complete=True, documents=0, services=())
            report = await self._delete(name, page.ids, build, caller, version)
            return report.model_copy(update={"more": page.following is not None})

    async def _delete(
        self, name: str, ids: tuple[str, ...], build: str | None, caller: Principal | None, version: int | None = None
    ) -> FanOutReport:
        request = IdsRequest.model_construct(ids=ids)

        async def delete(backend: Backend, part: WriteTarget) -> DeleteReport:
            return await wire.delete(backend, part.generation, request, part.version, part.build, part.timeout_s)

        return await self._write(name, build, caller, len(ids), delete, version=version)

    @asynccontextmanager
    async def _ordered_write(self, name: str) -> AsyncIterator[int]:
        """Yields the version of a write that reads first. This gateway's earlier writes have ended; later ones win."""
        version = self._clock.next()
        await self._pauses.settled(name)
        async with self._pauses.write(name):
            yield version

    async def get_documents(self, name: str, ids: IdsRequest) -> DocumentsAnswer:
        """Reads documents by id from the document store."""
        budget, store = Budget.within(current_deadline()), self._document_store()
        generation = await self._generations.readable(name, budget.remaining_s())
        try:
            answer = await wire.fetch_documents(store, generation, FetchRequest(ids=ids.ids), budget.remaining_s())
        except BackendFailed as failure:
            raise as_problem(failure) from failure
        return DocumentsAnswer.model_construct(documents=answer.documents, missing=answer.missing)

    async def list_documents(self, name: str, after: str | None, most: int, *, vectors: bool) -> DocumentsPage:
        """Reads a page of the live generation, also with the dense vectors of all its backends.

        Of an unpublished one, the document store may list only a part.
        """
        budget, store = Budget.within(current_deadline()), self._document_store()
        generation = await self._generations.searchable(name, budget.remaining_s())
        try:
            backends = self._generations.backends_of(generation) if vectors else ()
            with_vectors = [backend for backend in backends if FAMILIES[backend.family].takes_vectors]
            return await read_page(store, generation, after, most, budget.remaining_s, with_vectors)
        except BackendFailed as failure:
            raise as_problem(failure) from failure

    def _document_store(self) -> Backend:
        store = self._backends.document_store
        if store is None:
            families = family_names(lambda family: family.document_store)
            raise Unavailable(f"There is no document store: GATEWAY_BACKENDS names no backend of family {families}.")
        return store

    async def _write(
        self,
        name: str,
        token: str | None,
        caller: Principal | None,
        documents: int,
        write: Callable[[Backend, WriteTarget], Awaitable[Report]],
        given_vectors: frozenset[str] = frozenset(),
        version: int | None = None,
    ) -> FanOutReport:
        """Writes to the generation of a build, or to the live one and then to every build above it, which would lack
        the write when published. Runs within a write of `self._pauses`.

        `given_vectors`: the backends whose vectors documents have. Raises BadInput if one of them takes none. Without a
        `version` the write is the newest.
        """
        budget = Budget.within(current_deadline())
        history = await self._generations.fetch_history(name, budget.remaining_s())
        expect_own_build(history, token, caller)
        target = target_generation(history, token)
        version = self._clock.next() if version is None else version

        async def on_one(backend: Backend) -> Report:
            return await write(backend, WriteTarget(target, history.build(target), version, budget.remaining_s()))

        try:
            backends = self._backends.named(history.backends(target))
            takers = sorted(backend.name for backend in backends if FAMILIES[backend.family].takes_vectors)
            if strange := sorted(given_vectors.difference(takers)):
                raise BadInput(
                    f"vectors: {target} takes none of '{strange[0]}'; backends that take dense ones: "
                    f"{', '.join(takers) or 'none'}."
                )
            results = await on_each(backends, on_one)
        except NotHeld:
            # Publishing a newer generation meanwhile has removed this build: the message is of that.
            target_generation(await self._generations.fetch_history(name, budget.remaining_s()), token)
            raise
        if target == history.live:
            results = await self._write_to_builds(target, version, results, write, budget)
        reports = [result for _, result in results if not isinstance(result, BackendFailed)]
        for report in reports:
            self._clock.advance(report.latest_version)
        return FanOutReport(
            collection=target,
            complete=len(reports) == len(results) and all(not report.errors for report in reports),
            documents=documents,
            services=tuple(_outcome(backend, result) for backend, result in results),
        )

    async def _write_to_builds(
        self,
        target: str,
        version: int,
        results: Sequence[tuple[Backend, Report | BackendFailed]],
        write: Callable[[Backend, WriteTarget], Awaitable[Report]],
        budget: Budget,
    ) -> Sequence[tuple[Backend, Report | BackendFailed]]:
        """Repeats a write to the live generation in every build above it.

        Searches for builds after the write, and again until no new one is found: a build that began during the write
        needs it too.
        """
        done: set[str] = set()
        while True:
            await self._generations.refresh(budget.remaining_s())
            history = self._generations.history(name_of(target))
            missing = [build for build in history.other_targets(target) if build not in done]
            # Written to only some of the backends, a document would keep a build from being published.
            incomplete = [build for build in missing if build != history.live and not history.held_by_all(build)]
            todo = [build for build in missing if build not in incomplete]
            if not todo and not self._may_complete_soon(history.name, incomplete):
                return results
            if not todo:
                await asyncio.sleep(COMPLETION_POLL_S)
            for build in todo:
                part = WriteTarget(build, history.build(build), version, budget.remaining_s())
                known = dict(results)
                results = [
                    (backend, result)
                    for backend, result in await asyncio.gather(
                        *(
                            _write_to_build(history, backend, known.get(backend), part, write)
                            for backend in self._backends.storing
                        )
                    )
                    if result is not None
                ]
            done.update(todo)

    def _may_complete_soon(self, name: str, incomplete: Sequence[str]) -> bool:
        """Returns whether one of these builds, which some backends lack, may soon be in all of them."""
        now = time.monotonic()
        since = self._incomplete_builds.get(name, {})
        self._incomplete_builds[name] = {build: since.get(build, now) for build in incomplete}
        if not incomplete:
            del self._incomplete_builds[name]
        return any(now - since.get(build, now) < COMPLETION_S for build in incomplete)


def _outcome(backend: Backend, result: IndexReport | DeleteReport | BackendFailed) -> ServiceOutcome:
    if isinstance(result, BackendFailed):
        return ServiceOutcome(backend=backend.name, status="failed", reason=f"{result.reason}: {advice(result)}")
    return ServiceOutcome(backend=backend.name, status="ok", report=result)


async def _write_to_build(
    history: History,
    backend: Backend,
    live: Report | BackendFailed | None,
    part: WriteTarget,
    write: Callable[[Backend, WriteTarget], Awaitable[Report]],
) -> tuple[Backend, Report | BackendFailed | None]:
    """Writes to a build. Returns the backend's result for the live generation, None where that does not live on it,
    with the build's errors added."""
    if isinstance(live, BackendFailed) or not history.held_by(backend.name, part.generation):
        return backend, live
    try:
        built = await write(backend, part)
    except BackendFailed as failure:
        # Removed, begun again, or built by another model: the backend cannot publish this build, so nothing is lost.
        passing = failure.unknown_generation or failure.other_build or failure.stamp_differs
        return backend, live if passing else failure
    errors: tuple[ItemError, ...] = () if live is None else live.errors
    for error in built.errors:
        reason = f"In {part.generation}, which is being built: {error.reason}"
        errors = (*errors, error.model_copy(update={"reason": reason}))
    latest = max(built.latest_version or 0, 0 if live is None else live.latest_version or 0) or None
    return backend, (live or built).model_copy(update={"errors": errors, "latest_version": latest})


def _with_own_vectors(documents: Sequence[SentDocument], backend: str) -> tuple[SentDocument, ...]:
    """Returns the documents with the vectors of one backend alone."""
    return tuple(
        document.model_copy(
            update={"vectors": {name: vector for name, vector in document.vectors.items() if name == backend}}
        )
        for document in documents
    )


def _undeclared_fields(
    documents: Sequence[Document], generation: str, states: Iterable[CollectionState]
) -> tuple[str, ...]:
    """Returns, sorted, the first MOST_NAMES field names that no state declares: stored, but not filterable."""
    declarations = [state.declaration.metadata for state in states if state.generation == generation]
    if not declarations:
        return ()
    declared = {name for metadata in declarations for name in metadata}
    sent = {name for document in documents for name in document.metadata}
    return tuple(sorted(sent - declared)[:MOST_NAMES])
