"""Reads the documents of a generation page by page, within the bound of an answer: for readers and to fill backends."""

from collections.abc import Callable

from gateway.backends import wire
from gateway.backends.failures import BackendFailed
from gateway.backends.wire import Backend
from services.chassis.errors import AnswerTooLarge
from services.contracts.documents import DocumentsPage, FetchRequest, IdPageRequest


async def read_page(
    store: Backend, generation: str, after: str | None, most: int, left_s: Callable[[], float]
) -> DocumentsPage:
    """Returns the page after `after` (the `following` of another), of half as many ids until an answer can hold it.

    The documents are those of after the call began. `left_s` returns the seconds for the next call. Raises
    BackendFailed.
    """
    while True:
        page = await wire.list_ids(store, generation, IdPageRequest(after=after, most=most), left_s())
        if not page.ids:
            return DocumentsPage(generation=generation, documents=(), following=page.following)
        try:
            found = await wire.fetch_documents(store, generation, FetchRequest(ids=page.ids), left_s())
        except BackendFailed as failure:
            if failure.kind != AnswerTooLarge.kind or len(page.ids) == 1:
                raise
            most = len(page.ids) // 2
        else:
            # A document that was deleted in between is missing, and no part of the page.
            return DocumentsPage.model_construct(
                generation=generation, documents=found.documents, following=page.following
            )
