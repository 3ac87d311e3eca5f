"""Reads documents of one generation from the document store for a walk: only the needed ones, each only once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from gateway.backends import wire
from gateway.backends.failures import BackendFailed, not_held
from gateway.backends.wire import Backend
from gateway.families import family_names
from services.contracts.documents import Document, FetchedDocuments, FetchRequest, Included
from services.contracts.highlights import HighlightRequest, Highlights

# The re-ranker accepts bodies of 8 MB; the difference is for JSON escapes and the query.
MOST_BYTES = 7_000_000
PASSAGE: frozenset[Included] = frozenset(("title", "text"))


@dataclass(frozen=True, slots=True)
class WalkTexts:
    """The documents of one generation that a walk has read, and the store to read more from.

    `parts`: those that were read of each. `cut`: the ids of documents whose text was cut. `store_failure`: why an
    earlier stage could not read; the store is not called again.
    """

    store: Backend | None
    generation: str
    store_failure: BackendFailed | None = None
    read: Mapping[str, Document] = field(default_factory=dict)
    cut: frozenset[str] = frozenset()
    parts: frozenset[Included] = PASSAGE

    def with_failures(self, failures: Iterable[BackendFailed]) -> Self:
        """Returns a copy that does not call the store again if one of the failures is the store's."""
        own = [failure for failure in failures if self.store is not None and failure.backend == self.store.name]
        return replace(self, store_failure=own[-1]) if own else self

    async def with_passages(self, ids: Sequence[str], timeout_s: float) -> Self:
        """Returns a copy with the titles and texts of these documents, as far as the store has them.

        The store cuts the texts if they exceed MOST_BYTES together. Raises BackendFailed (no_document_store).
        """
        before = self._having(PASSAGE)
        wanted = tuple(identity for identity in ids if identity not in before)
        if not wanted:
            return self
        request = FetchRequest(ids=wanted, include=("title", "text"), cut_to_bytes=MOST_BYTES)
        answer = await self._fetched(request, timeout_s)
        read = {**before, **{document.id: document for document in answer.documents}}
        return replace(self, read=read, cut=self.cut.union(answer.cut), parts=PASSAGE)

    def passages(self, ids: Sequence[str]) -> dict[str, str]:
        """Returns the passages for a re-ranker by id, of those documents that were read."""
        return {identity: self.read[identity].passage for identity in ids if identity in self.read}

    def title_lengths(self, ids: Iterable[str]) -> tuple[int, ...]:
        """Returns the characters of the title at the beginning of each passage."""
        return tuple(len(self.read[identity].title.lstrip()) for identity in ids)

    async def read_uncut(
        self, ids: Sequence[str], include: Sequence[Included], highlight: HighlightRequest | None, timeout_s: float
    ) -> tuple[dict[str, Document], Mapping[str, Highlights]]:
        """Returns these parts of the documents that the store has, uncut, and their highlights.

        Raises BackendFailed (no_document_store).
        """
        documents = self.already_read(ids, include) if highlight is None else {}
        wanted = tuple(identity for identity in ids if identity not in documents)
        if not wanted:
            return documents, {}
        parts = tuple(sorted(set(include))) or ("title",)
        answer = await self._fetched(FetchRequest(ids=wanted, include=parts, highlight=highlight), timeout_s)
        return documents | {document.id: document for document in answer.documents}, answer.highlights

    def already_read(self, ids: Sequence[str], include: Sequence[Included]) -> dict[str, Document]:
        """Returns the documents of which these parts have been read uncut."""
        known = self._having(include)
        return {identity: known[identity] for identity in ids if identity in known and identity not in self.cut}

    def _having(self, parts: Collection[Included]) -> Mapping[str, Document]:
        return self.read if self.parts.issuperset(parts) else {}

    async def _fetched(self, request: FetchRequest, timeout_s: float) -> FetchedDocuments:
        store = expected_store(self.store)
        if self.store_failure is not None:
            raise self._without(self.store_failure) from self.store_failure
        try:
            return await wire.fetch_documents(store, self.generation, request, timeout_s)
        except BackendFailed as failure:
            raise self._without(failure) from failure

    def _without(self, failure: BackendFailed) -> BackendFailed:
        cause = not_held(failure.backend, self.generation) if failure.unknown_generation else failure
        detail = f"{cause.reason}: {cause.detail}"
        return BackendFailed("document store", "no_document_store", detail, status=cause.status, kind=cause.kind)


def expected_store(store: Backend | None) -> Backend:
    """Returns the document store. Raises BackendFailed (no_document_store) where there is none."""
    if store is None:
        stores = family_names(lambda family: family.document_store)
        raise BackendFailed("document store", "no_document_store", f"no {stores} backend is configured.")
    return store


def fit_to_reranker(passages: Sequence[str]) -> tuple[str, ...]:
    """Returns the passages. If they exceed MOST_BYTES together, cuts each to an equal share."""
    if sum(len(passage.encode()) for passage in passages) <= MOST_BYTES:
        return tuple(passages)
    share = MOST_BYTES // len(passages) // 4  # a character has at most 4 bytes in UTF-8
    return tuple(passage[:share] for passage in passages)
