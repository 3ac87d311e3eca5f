"""Reads the documents of a generation page by page, for readers and to fill a build with those of the live one."""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from gateway.backends import wire
from gateway.backends.budget import CALL_S
from gateway.backends.failures import BackendFailed, as_problem
from gateway.backends.wire import Backend, on_all
from services.chassis.errors import (
    AnswerTooLarge,
    BodyTooLarge,
    Conflict,
    InsufficientStorage,
    Overloaded,
    ProblemError,
)
from services.contracts.documents import (
    COPIED_VERSION,
    Document,
    DocumentsPage,
    DocumentWithVectors,
    FetchRequest,
    IdPageRequest,
    IndexRequest,
    SentDocument,
)
from services.contracts.vectors import MOST_VECTOR_IDS, VectorsAnswer, VectorsRequest

logger = logging.getLogger(__name__)
# Documents copied in one call, as many as the evaluator's loader sends.
COPIED = 64
# Seconds until a failure that may pass is tried again.
RETRY_S = 2.0


async def fill_build(
    store: Backend, live: str, backends: Sequence[Backend], generation: str, build: str | None
) -> None:
    """Copies what the build lacks of the live generation. What was sent to it, or deleted from it, is newer, and stays.

    The document store gets its copies last: what was interrupted differs between the services, so that a publish
    that does not go on filling refuses it. A generation on the document store alone has nothing to differ from.
    Raises ProblemError for what does not pass.
    """
    for part in ([peer for peer in backends if peer is not store], [peer for peer in backends if peer is store]):
        if part:
            await _copy(store, live, part, generation, build)


async def _copy(store: Backend, live: str, backends: Sequence[Backend], generation: str, build: str | None) -> None:
    after: str | None = None
    while True:
        try:
            page = await read_page(store, live, after, COPIED, lambda: CALL_S)
            await on_all(backends, partial(_send, generation, build, page.documents))
        except (BackendFailed, ProblemError) as failure:
            problem = as_problem(failure) if isinstance(failure, BackendFailed) else failure
            away_or_busy = problem.status == 429 or problem.status >= 500
            if not away_or_busy or problem.status == InsufficientStorage.status:
                raise problem from failure
            logger.warning("documents not copied yet", extra={"because": problem.detail})
            await asyncio.sleep(RETRY_S)
            continue
        if page.following is None:
            return
        after = page.following


async def _send(generation: str, build: str | None, documents: Sequence[Document], backend: Backend) -> None:
    """Sends documents, half of them at a time where a body cannot hold all."""
    if not documents:
        return
    batch = IndexRequest(documents=tuple(SentDocument(**dict(document)) for document in documents))
    try:
        report = await wire.index(backend, generation, batch, COPIED_VERSION, build, CALL_S)
    except BackendFailed as failure:
        if failure.status != BodyTooLarge.status or len(documents) == 1:
            raise
        middle = len(documents) // 2
        for half in (documents[:middle], documents[middle:]):
            await _send(generation, build, half, backend)
        return
    for error in report.errors:
        if not error.overtaken:
            problem = Overloaded if error.retryable else Conflict
            raise problem(f"{backend.name} did not take document '{error.id}': {error.reason}")


async def read_page(
    store: Backend,
    generation: str,
    after: str | None,
    most: int,
    left_s: Callable[[], float],
    vectors_of: Sequence[Backend] = (),
) -> DocumentsPage:
    """Returns the page after `after` (the `following` of another), of half as many ids until an answer can hold it.

    The documents are those of after the call began, with the vectors of these backends. `left_s` returns the seconds
    for the next call. Raises BackendFailed.
    """
    most = min(most, MOST_VECTOR_IDS) if vectors_of else most
    while True:
        page = await wire.list_ids(store, generation, IdPageRequest(after=after, most=most), left_s())
        if not page.ids:
            return DocumentsPage(generation=generation, documents=(), following=page.following)
        try:
            answer = await wire.fetch_documents(store, generation, FetchRequest(ids=page.ids), left_s())
            request = VectorsRequest.model_construct(ids=page.ids)
            answers = await asyncio.gather(
                *(wire.fetch_vectors(backend, generation, request, left_s()) for backend in vectors_of)
            )
        except BackendFailed as failure:
            if failure.kind != AnswerTooLarge.kind or len(page.ids) == 1:
                raise
            most = len(page.ids) // 2
        else:
            # A document that was deleted in between is missing, and no part of the page.
            named = zip([backend.name for backend in vectors_of], answers, strict=True)
            documents = _with_vectors(answer.documents, named)
            return DocumentsPage.model_construct(generation=generation, documents=documents, following=page.following)


def _with_vectors(
    documents: Iterable[Document], answers: Iterable[tuple[str, VectorsAnswer]]
) -> tuple[DocumentWithVectors, ...]:
    """Adds to each document its vectors; one of another title, text or metadata was written in between."""
    stored = {backend: {vector.id: vector for vector in answer.vectors} for backend, answer in answers}
    return tuple(
        DocumentWithVectors.model_construct(
            **dict(document),
            vectors={
                backend: vector.vector
                for backend, held in stored.items()
                if (vector := held.get(document.id)) is not None and vector.content_hash == document.content_hash
            },
        )
        for document in documents
    )
