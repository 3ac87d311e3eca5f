"""Documents for one walk, from the document store: only those that are needed, and each only once."""

from collections.abc import Sequence

from gateway import backends as wire
from gateway.downstream import Backend
from gateway.failures import BackendFailed, not_held
from gateway.families import named
from services.contracts.documents import Document, FetchedDocuments, FetchRequest, Included

# The re-ranker takes 8 MB; JSON escapes and the query need room too.
MOST_BYTES = 7_000_000


class Texts:
    """What a walk has read of the documents of one generation so far."""

    def __init__(self, store: Backend | None, generation: str) -> None:
        self._store = store
        self._generation = generation
        self._passages: dict[str, Document] = {}  # title and text
        self._cut: set[str] = set()  # of these, those whose text is not whole
        self._gone: BackendFailed | None = None

    def note_failure(self, failure: BackendFailed) -> None:
        """A leg of this walk found the backend gone: it is not asked for documents too, which would take time."""
        if self._store is not None and failure.backend == self._store.name:
            self._gone = failure

    async def passages(self, ids: Sequence[str], timeout_s: float) -> dict[str, str]:
        """What a re-ranker reads of those documents that the store has, cut by the store where it would be too much.

        Raises BackendFailed (no_document_store).
        """
        wanted = [identity for identity in ids if identity not in self._passages]
        if wanted:
            request = FetchRequest(ids=tuple(wanted), include=("title", "text"), cut_to_bytes=MOST_BYTES)
            answer = await self._fetched(request, timeout_s)
            self._passages |= {document.id: document for document in answer.documents}
            self._cut |= set(answer.cut)
        return {identity: self._passages[identity].passage for identity in ids if identity in self._passages}

    async def whole(self, ids: Sequence[str], include: Sequence[Included], timeout_s: float) -> dict[str, Document]:
        """These parts of those documents that the store has. Raises BackendFailed (no_document_store)."""
        found = self.at_hand(ids, include)
        wanted = tuple(identity for identity in ids if identity not in found)
        if wanted:
            parts = tuple(sorted(set(include)))
            answer = await self._fetched(FetchRequest(ids=wanted, include=parts), timeout_s)
            found |= {document.id: document for document in answer.documents}
        return found

    def at_hand(self, ids: Sequence[str], include: Sequence[Included]) -> dict[str, Document]:
        """Those of the documents of which these parts have been read whole."""
        if "metadata" in include:
            return {}
        known = self._passages.keys() - self._cut
        return {identity: self._passages[identity] for identity in ids if identity in known}

    async def _fetched(self, request: FetchRequest, timeout_s: float) -> FetchedDocuments:
        if self._store is None:
            raise BackendFailed(
                "document store",
                "no_document_store",
                f"no {named(lambda family: family.document_store)} backend is configured.",
            )
        if self._gone is not None:
            raise self._without(self._gone) from self._gone
        try:
            return await wire.fetch_documents(self._store, self._generation, request, timeout_s)
        except BackendFailed as failure:
            raise self._without(failure) from failure

    def _without(self, failure: BackendFailed) -> BackendFailed:
        told = not_held(failure.backend, self._generation) if failure.unknown_generation else failure
        detail = f"{told.reason}: {told.detail}"
        return BackendFailed("document store", "no_document_store", detail, status=told.status, kind=told.kind)


def fitting(passages: Sequence[str]) -> tuple[str, ...]:
    """The passages, cut to equal shares only where all together would exceed what the re-ranker takes."""
    if sum(len(passage.encode()) for passage in passages) <= MOST_BYTES:
        return tuple(passages)
    share = MOST_BYTES // len(passages) // 4  # a character has at most 4 bytes in UTF-8
    return tuple(passage[:share] for passage in passages)
