"""Reads documents of one generation for a walk from the document store: only those that are needed, each only once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gateway import backends as wire
from gateway.downstream import Backend
from gateway.failures import BackendFailed, not_held
from gateway.families import named
from services.contracts.documents import Document, FetchedDocuments, FetchRequest, Included

# The re-ranker takes 8 MB; JSON escapes and the query need room too.
MOST_BYTES = 7_000_000


@dataclass(frozen=True, slots=True)
class Texts:
    """Titles and texts that were read of documents of one generation, and where to read more.

    `cut`: the ids of those whose text is not whole. `gone`: the store's failure in an earlier stage of the walk, which
    saves the time of asking it again.
    """

    store: Backend | None
    generation: str
    gone: BackendFailed | None = None
    read: Mapping[str, Document] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()

    def after(self, failures: Iterable[BackendFailed]) -> Self:
        """Returns these without asking the store again where one of the failures is its own."""
        own = [failure for failure in failures if self.store is not None and failure.backend == self.store.name]
        return replace(self, gone=own[-1]) if own else self

    async def with_passages(self, ids: Sequence[str], timeout_s: float) -> Self:
        """Returns these and those of the documents that the store has; it cuts texts where all would be too much.

        Raises BackendFailed (no_document_store).
        """
        wanted = tuple(identity for identity in ids if identity not in self.read)
        if not wanted:
            return self
        request = FetchRequest(ids=wanted, include=("title", "text"), cut_to_bytes=MOST_BYTES)
        answer = await self._fetched(request, timeout_s)
        read = {**self.read, **{document.id: document for document in answer.documents}}
        return replace(self, read=read, cut=self.cut.union(answer.cut))

    def passages(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns by id what a re-ranker reads of those documents that were read."""
        return {identity: self.read[identity].passage for identity in ids if identity in self.read}

    async def whole(self, ids: Sequence[str], include: Sequence[Included], timeout_s: float) -> dict[str, Document]:
        """Returns these parts of those documents that the store has. Raises BackendFailed (no_document_store)."""
        found = self.at_hand(ids, include)
        wanted = tuple(identity for identity in ids if identity not in found)
        if wanted:
            parts = tuple(sorted(set(include)))
            answer = await self._fetched(FetchRequest(ids=wanted, include=parts), timeout_s)
            found |= {document.id: document for document in answer.documents}
        return found

    def at_hand(self, ids: Sequence[str], include: Sequence[Included]) -> dict[str, Document]:
        """Returns those of the documents of which these parts have been read whole."""
        if "metadata" in include:
            return {}
        known = self.read.keys() - self.cut
        return {identity: self.read[identity] for identity in ids if identity in known}

    async def _fetched(self, request: FetchRequest, timeout_s: float) -> FetchedDocuments:
        if self.store is None:
            stores = named(lambda family: family.document_store)
            raise BackendFailed("document store", "no_document_store", f"no {stores} backend is configured.")
        if self.gone is not None:
            raise self._without(self.gone) from self.gone
        try:
            return await wire.fetch_documents(self.store, self.generation, request, timeout_s)
        except BackendFailed as failure:
            raise self._without(failure) from failure

    def _without(self, failure: BackendFailed) -> BackendFailed:
        told = not_held(failure.backend, self.generation) if failure.unknown_generation else failure
        detail = f"{told.reason}: {told.detail}"
        return BackendFailed("document store", "no_document_store", detail, status=told.status, kind=told.kind)


def fitting(passages: Sequence[str]) -> tuple[str, ...]:
    """Returns the passages, cut to equal shares only where all together would exceed what the re-ranker takes."""
    if sum(len(passage.encode()) for passage in passages) <= MOST_BYTES:
        return tuple(passages)
    share = MOST_BYTES // len(passages) // 4  # a character has at most 4 bytes in UTF-8
    return tuple(passage[:share] for passage in passages)
