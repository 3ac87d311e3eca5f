"""The port of the lexical service: what an engine of text promises."""

from collections.abc import Sequence
from typing import Protocol

from services.contracts.collections import CollectionDeclaration, CollectionState, Unusable
from services.contracts.documents import DeleteReport, Document, FetchedDocuments, IndexReport
from services.contracts.health import Check
from services.contracts.retrieval import RetrievalRequest, RetrievedHit
from services.lexical.document_collector import WHOLE, Reading


class LexicalEngine(Protocol):
    """Searches the text of documents by BM25, and keeps the documents.

    - One generation (`scifact@2`) serves every preset that it declares, at the same time.
    - Hits come best first, equal scores by ascending id, also at the cut (for as long as the engine's README says);
      only documents that share a word with the query are hits, stop words not counted: a query of stop words has none.
    - A word that stands twice in the query counts twice; k1 and b of a preset decide its scores.
    - Ids are the caller's; indexing is idempotent by id. A document whose content is unchanged is counted as such and
      not indexed again. A document that cannot be taken is reported, and the others of its batch are taken.
    - What `index` and `delete` acknowledged is kept; `get` sees it at once, `search` and the counts at the latest after
      `finish`, and at once where the generation is published.
    - Filters and `exclude_ids` apply before the cut: `top` hits remain when there are as many.
    - What does not fit the declaration is BadInput: a preset or a filter field that is not declared (the declared ones
      are named), an operand of another kind.
    - A generation that is not there raises UnknownCollection. What was begun with another declaration, or made by
      another version of the engine's analysis, raises StampMismatch naming both; what belongs to another build cannot
      be begun again (BuildConflict).
    - A write with a `version` (a positive number that grows with time) takes the place of older ones only: a document
      that is held with the same or a newer one stays, and the write of it is reported as an error with `retryable`.
    - At most one generation of a name is published; a newly begun one is not.
    - An answer is whole or an error: never a ranking from a part of the documents.
    - A generation that cannot be opened keeps no other from serving: it is `unusable` and left as it is, whatever asks
      for it raises DamagedCollection, and it can be dropped.
    - A server that cannot be reached raises Unavailable, one that is late DeadlineExceeded; both recover by themselves.
    """

    async def check(self) -> Check:
        """Whether it can be used now; never raises."""
        ...

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None
    ) -> CollectionState:
        """Begins an empty generation; leaves one alone that is there with the same declaration and build.

        A build of None belongs to nobody, and leaves every one alone.
        """
        ...

    async def states(self) -> tuple[CollectionState, ...]:
        """Every generation held, by name and number."""
        ...

    async def unusable(self) -> tuple[Unusable, ...]:
        """Generations that are there and cannot be opened, and why."""
        ...

    async def state(self, generation: str) -> CollectionState:
        """One generation."""
        ...

    async def drop(self, generation: str) -> None:
        """Removes a generation and all that it holds."""
        ...

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """Adds or replaces documents; their ids are distinct. Without a version they are newer than all before."""
        ...

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """Removes documents; how many there were."""
        ...

    async def get(self, generation: str, ids: Sequence[str], reading: Reading = WHOLE) -> FetchedDocuments:
        """The documents as they were given, in the order of the ids, each once; ids without one are `missing`.

        `reading` says which parts of them. More than MOST_ANSWER_BYTES raise AnswerTooLarge, or are cut where that is
        asked for, and so do more metadata values than MOST_ANSWER_VALUES; no more than about twice that
        is read at once.
        """
        ...

    async def finish(self, generation: str) -> CollectionState:
        """Makes everything searchable and the index compact. Cut off by a deadline: call it again."""
        ...

    async def digest(self, generation: str) -> str:
        """ContentDigest over the ids and content hashes of all documents; exact after `finish` while nobody writes."""
        ...

    async def publish(self, generation: str) -> CollectionState:
        """Makes this generation the published one of its name, in one step. `published_at` is when it became so, and
        stays when another takes its place; publishing the published one again changes nothing."""
        ...

    async def search(self, generation: str, asked: RetrievalRequest) -> tuple[RetrievedHit, ...]:
        """The best documents for `asked.query` under `asked.preset`, or under the first declared one."""
        ...

    async def close(self) -> None:
        """Lets go of files and connections; twice is as good as once. Nothing else may be asked afterwards."""
        ...
