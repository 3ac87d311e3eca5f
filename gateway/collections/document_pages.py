"""Reads the documents of a generation page by page, within the bound of an answer: for readers and to fill backends."""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from gateway.backends import wire
from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backend
from services.chassis.errors import AnswerTooLarge
from services.contracts.documents import Document, DocumentsPage, DocumentWithVectors, FetchRequest, IdPageRequest
from services.contracts.vectors import MOST_VECTOR_IDS, VectorsAnswer, VectorsRequest


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
            found = await wire.fetch_documents(store, generation, FetchRequest(ids=page.ids), left_s())
            asked = VectorsRequest.model_construct(ids=page.ids)
            answers = await asyncio.gather(
                *(wire.fetch_vectors(backend, generation, asked, left_s()) for backend in vectors_of)
            )
        except BackendFailed as failure:
            if failure.kind != AnswerTooLarge.kind or len(page.ids) == 1:
                raise
            most = len(page.ids) // 2
        else:
            # A document that was deleted in between is missing, and no part of the page.
            named = zip([backend.name for backend in vectors_of], answers, strict=True)
            documents = _with_vectors(found.documents, named)
            return DocumentsPage.model_construct(generation=generation, documents=documents, following=page.following)


def _with_vectors(
    documents: Iterable[Document], answers: Iterable[tuple[str, VectorsAnswer]]
) -> tuple[DocumentWithVectors, ...]:
    """Adds to each document its vectors; one of another title, text or metadata was written in between."""
    stored = {backend: {one.id: one for one in answer.vectors} for backend, answer in answers}
    return tuple(
        DocumentWithVectors.model_construct(
            **dict(document),
            vectors={
                backend: there.vector
                for backend, held in stored.items()
                if (there := held.get(document.id)) is not None and there.content_hash == document.content_hash
            },
        )
        for document in documents
    )
