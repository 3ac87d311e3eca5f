"""Owns the port of the lexical service: the promises of a text engine."""

from collections.abc import Sequence
from typing import Protocol

from services.contracts.collections import CollectionDeclaration, CollectionState, Unusable
from services.contracts.documents import DeleteReport, Document, FetchedDocuments, IdPage, IdPageRequest, IndexReport
from services.contracts.health import Check
from services.contracts.matches import CountRequest, Matches
from services.contracts.retrieval import BrowseRequest, RetrievalRequest
from services.contracts.scored import Ranking
from services.lexical.document_collector import WHOLE, ReadOptions


class LexicalEngine(Protocol):
    """Searches the text of documents by BM25, and stores the documents.

    - One generation (`scifact@2`) serves every preset that it declares, at the same time.
    - Hits come best first, equal scores by ascending id, also at the cut (for as long as the engine's README states);
      only documents that share a word with the query are hits, stop words not counted: a query of stop words has none.
    - A word that occurs twice in the query counts twice; k1 and b of a preset determine its scores.
    - Ids are the caller's; indexing is idempotent by id. An unchanged document is counted as such, and its version
      rises to that of the write. A document that is refused is reported, and the others of its batch are indexed.
    - Acknowledged writes are durable; `get` sees them at once, `search` and the counts at the latest after `finish`,
      and at once where the generation is published.
    - Filters and `exclude_ids` apply before the cut: `top` hits are returned if as many match. So do the `ids` of a
      list or count: those without a document change nothing.
    - A request that does not fit the declaration raises BadInput: an undeclared preset or filter field (the declared
      ones are named), an operand of another kind.
    - Each document carries exactly the expansions that the declaration names, by the same models; another document is
      reported and refused. A preset over expansions scores queries as if the text held them, and words as if each
      stood there as often as its frequency.
    - An unknown generation raises UnknownCollection. One begun with another declaration, or made by another version of
      the engine's analysis, raises StampMismatch naming both; one of another build cannot be begun again
      (BuildConflict).
    - A write with a `version` (a positive number that grows with time) replaces only older ones: a document with the
      same or a newer version stays, and the write is reported as an error, `overtaken`.
    - At most one generation of a name is published; a newly begun one is not.
    - An answer is complete or an error: never a ranking of only a part of the documents.
    - A generation that cannot be opened does not affect others: it is `unusable` and left unchanged, requests for it
      raise DamagedCollection, and it can be dropped.
    - An unreachable server raises Unavailable, a late one DeadlineExceeded; both recover by themselves.
    """

    async def check(self) -> Check:
        """Returns whether the engine can be used now. Never raises."""
        ...

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None, owner: str | None = None
    ) -> CollectionState:
        """Begins an empty generation, or returns the existing one of the same declaration and build.

        Without a `build`, that of an existing one is not checked. An existing one keeps its owner.
        """
        ...

    async def states(self) -> tuple[CollectionState, ...]:
        """Returns every generation, by name and number."""
        ...

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns the generations that cannot be opened, and why."""
        ...

    async def state(self, generation: str) -> CollectionState:
        """Returns the state of one generation."""
        ...

    async def build(self, generation: str) -> str | None:
        """Returns the mark of the build that the generation belongs to."""
        ...

    async def drop(self, generation: str) -> None:
        """Removes a generation with its documents."""
        ...

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """Adds or replaces documents with distinct ids. Without a version the write counts as the newest."""
        ...

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """Removes documents and returns how many there were."""
        ...

    async def get(self, generation: str, ids: Sequence[str], reading: ReadOptions = WHOLE) -> FetchedDocuments:
        """Returns the documents as they were given, in the order of the ids, each once; other ids are `missing`.

        `reading` selects their parts. Raises AnswerTooLarge above MOST_ANSWER_BYTES (unless `reading` cuts texts) or
        MOST_ANSWER_VALUES metadata values. Reads at most about twice that at once.
        """
        ...

    async def ids(self, generation: str, request: IdPageRequest) -> IdPage:
        """Returns a page of the ids of all documents that searches see, or of those that pass the filter. A search sees
        nothing of a build, but its ids are listed.

        The pages together have every document that exists throughout, exactly once, whatever `most` each page requests.
        """
        ...

    async def finish(self, generation: str) -> CollectionState:
        """Makes everything searchable, and the index of a build compact. After a deadline, call it again."""
        ...

    async def digest(self, generation: str) -> str:
        """Computes the ContentDigest of all documents. Exact after `finish` if there are no writes meanwhile."""
        ...

    async def publish(self, generation: str, publication: int | None = None) -> CollectionState:
        """Publishes a generation, atomically. `published_at` is the time of it, and `publication` the number asked for,
        but one above those of the collection's other generations if that is higher. Both stay when another one is
        published instead. Publishing the published one again changes nothing."""
        ...

    async def search(self, generation: str, request: RetrievalRequest) -> Ranking:
        """Returns the best documents for `request.query` by `request.preset`, or by the first declared preset."""
        ...

    async def search_with_documents(
        self, generation: str, request: RetrievalRequest
    ) -> tuple[Ranking, tuple[Document, ...]]:
        """Returns the hits of `search`, and what `request.include` names of their documents, in the same order.

        No documents if they exceed MOST_BESIDE_HITS_BYTES or MOST_ANSWER_VALUES together, may exceed them, or are late.
        """
        ...

    async def browse(self, generation: str, request: BrowseRequest) -> tuple[str, ...]:
        """Returns the ids of the first documents that pass the filter, in the order that a BrowseRequest describes.

        Raises BadInput for a sort by anything but a declared number or date.
        """
        ...

    async def count(self, generation: str, request: CountRequest) -> Matches:
        """Counts, exactly, those documents that a search without a cut would return; without a query, all that pass
        the filter. Values come by count descending, then by value, at the cut too.

        Raises BadInput for a facet that does not fit its field's declared kind.
        """
        ...

    async def close(self) -> None:
        """Releases files and connections. Idempotent; no other call may follow."""
        ...
