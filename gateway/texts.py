"""Documents for one walk, from the document store: only those that are needed, and each only once."""

from collections.abc import Sequence

from gateway import backends as wire
from gateway.downstream import Backend
from gateway.failures import BackendFailed, not_held
from services.contracts.documents import Document, IdsRequest

# The re-ranker takes 8 MB; JSON escapes and the query need room too.
MOST_BYTES = 7_000_000


class Texts:
    """The documents of one generation that a walk has fetched so far."""

    def __init__(self, store: Backend | None, generation: str) -> None:
        self._store = store
        self._generation = generation
        self._documents: dict[str, Document] = {}
        self._gone: BackendFailed | None = None

    def note_failure(self, failure: BackendFailed) -> None:
        """A leg of this walk found the backend gone: it is not asked for documents too, which would take time."""
        if self._store is not None and failure.backend == self._store.name:
            self._gone = failure

    async def fetch(self, ids: Sequence[str], timeout_s: float) -> dict[str, Document]:
        """Those of the documents that the store has. Raises BackendFailed (no_document_store)."""
        wanted = [identity for identity in ids if identity not in self._documents]
        if wanted:
            if self._store is None:
                raise BackendFailed("document store", "no_document_store", "no lexical backend is configured.")
            if self._gone is not None:
                raise self._without(self._gone) from self._gone
            try:
                answer = await wire.documents(self._store, self._generation, IdsRequest(ids=tuple(wanted)), timeout_s)
            except BackendFailed as failure:
                raise self._without(failure) from failure
            self._documents |= {document.id: document for document in answer.documents}
        return {identity: self._documents[identity] for identity in ids if identity in self._documents}

    def _without(self, failure: BackendFailed) -> BackendFailed:
        told = not_held(failure.backend, self._generation) if failure.unknown_generation else failure
        detail = f"{told.reason}: {told.detail}"
        return BackendFailed("document store", "no_document_store", detail, status=told.status, kind=told.kind)

    def at_hand(self, ids: Sequence[str]) -> dict[str, Document]:
        """Those of the documents that were fetched before."""
        return {identity: self._documents[identity] for identity in ids if identity in self._documents}


def fitting(passages: Sequence[str]) -> tuple[str, ...]:
    """The passages, cut to equal shares only where all together would exceed what the re-ranker takes."""
    if sum(len(passage.encode()) for passage in passages) <= MOST_BYTES:
        return tuple(passages)
    share = MOST_BYTES // len(passages) // 4  # a character has at most 4 bytes in UTF-8
    return tuple(passage[:share] for passage in passages)
