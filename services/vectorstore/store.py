"""Defines the port of the vector services: VectorStore, its values, and the checks that every implementation uses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration, Unusable
from services.contracts.health import Check
from services.contracts.retrieval import DEFAULT_BEAM
from services.contracts.scored import Ranking
from services.storage.fields import FieldValue, Requirement
from services.storage.generation_checks import refuse_other_build, refuse_other_declaration, refuse_other_stamp
from services.storage.representation import Representation, SparseVector, Vector

# Most components in one request: Qdrant refuses bodies above 32 MB, and a component takes up to 22 bytes of JSON.
MOST_SENT = 1_048_576
# The stamp of a store without settings that change hits.
NO_STAMP: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GenerationSpec:
    """The specification of a generation. `stamp` is everything that determines its vectors.

    `build` is the token of the owning build, None without one. `owner` owns the collection; an existing one keeps it.
    """

    generation: str
    representation: Representation
    stamp: Mapping[str, str]
    declaration: CollectionDeclaration
    build: str | None = None
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """The number of documents, and of those that the approximate index covers (the others are scanned).

    `bytes`: what the generation takes on the disk; None where the store does not report it.
    """

    documents: int
    indexed: int
    bytes: int | None


@dataclass(frozen=True, slots=True)
class Publication:
    """Time of a generation's last publication (Unix seconds) and its number, None from a release without numbers."""

    at: float
    number: int | None = None


@dataclass(frozen=True, slots=True)
class Point:
    """A document as a store keeps it: id, vector, two hashes, and the declared fields."""

    id: str
    vector: Vector
    content_hash: str
    passage_hash: str
    fields: Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """The hashes stored under an id, and the vector if it was requested."""

    content_hash: str
    passage_hash: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """A search for the `top` best documents that meet all of `where`, without `exclude_ids`.

    `exact` scores every document and ignores the approximate index. `beam` is the number of candidates that an
    approximate search keeps; the engine raises it to the number of hits that it has to return, ties included.
    """

    vector: Vector
    top: int
    exact: bool = False
    beam: int = DEFAULT_BEAM
    where: tuple[Requirement, ...] = ()
    exclude_ids: tuple[str, ...] = ()


class VectorStore(Protocol):
    """Stores vectors by generation (`name@N`) and finds the best for a query.

    - The representation of a generation decides the score: dot product or cosine (dense), inner product (sparse),
      MaxSim (multi-vector).
    - A search of dense vectors, or of multi-vectors in fp32, is approximate once they are indexed; `exact` scores
      every document. A search of other multi-vectors takes as candidates the `beam` nearest by the pooled vector
      (of each shard), and orders them by MaxSim. A search of sparse vectors is always exact. It finds only
      documents that share a term with the query, and may omit those that score exactly 0.
    - Scores of multi-vectors differ from the MaxSim of the given vectors by no more than a share of the lengths of the
      query's tokens, added up, times the length of the longest token of a document: 0.1 % in fp16, 3 % in turbo4.
    - The first hits of an approximate search do not depend on `top`, as long as `top` and the hits fetched to settle
      ties (FIRST_EXTRA) do not exceed `beam`. Those of an exact search never do.
    - Ids are those of the documents; the engine's own point ids are never visible.
    - Upserting an existing id replaces the document; deleting an absent id is no error. Neither changes a document of
      the same or a higher version, whichever process wrote it; those are returned. A deleted document leaves its
      version on Elasticsearch alone, and a write without a version is the newest.
    - The next search sees an acknowledged change, and the change survives a crash of the process.
    - Hits are sorted best first, equal scores by ascending id. This holds at the last place too if at most
      `ties.MOST_EXTRA` documents tie with it (an approximate search sorts those that it found).
    - Vectors are returned bit by bit as given; those compared by cosine are scaled to length 1 once, and multi-vectors
      are rounded as their storage says. A vector that is not finite or does not fit the
      representation is refused (BadInput), in a document and in a query.
    - A generation that does not exist raises UnknownCollection. `create` refuses an existing generation of another
      stamp, representation or declaration but for backends (StampMismatch), or of another build (BuildConflict).
    - At most one generation of a name is published; a new one is not.
    - A generation that cannot be opened does not affect the others. It is listed as `unusable` and left unchanged;
      every use of it raises DamagedCollection, except dropping it.
    - A store that cannot be reached raises Unavailable, a late one DeadlineExceeded; both recover without a restart.
    """

    @property
    def engine(self) -> str:
        """The engine's name and version, for states and manifests."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """The settings that change the hits of new generations; empty without any."""
        ...

    async def ready(self) -> Check:
        """Returns whether the store can be used now; never raises."""
        ...

    async def generations(self) -> tuple[str, ...]:
        """Returns every generation, sorted by name and number."""
        ...

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns the generations that exist but cannot be opened, and why."""
        ...

    async def create(self, spec: GenerationSpec) -> None:
        """Creates an empty generation, or finds the one that exists with the same spec but for the backends."""
        ...

    async def spec(self, generation: str) -> GenerationSpec:
        """Returns the specification of a generation."""
        ...

    async def counts(self, generation: str) -> Counts:
        """Returns the number of its documents and indexed vectors."""
        ...

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """Returns what is stored under these ids, without those that are absent."""
        ...

    async def upsert(self, generation: str, points: Sequence[Point], version: int | None = None) -> Mapping[str, int]:
        """Adds documents, or replaces those of the same id. Returns the versions of those that stay, by id."""
        ...

    async def raise_versions(self, generation: str, contents: Mapping[str, str], version: int) -> None:
        """Raises lower versions of documents to this one, so that no older write replaces them.

        Only of those that still have the content hash given by id. Indexes no vector anew, except on Elasticsearch.
        """
        ...

    async def delete(
        self, generation: str, ids: Sequence[str], version: int | None = None
    ) -> tuple[int, Mapping[str, int]]:
        """Removes documents by id. Returns how many it removed, and the versions of those that stay."""
        ...

    async def search(self, generation: str, query: VectorQuery) -> Ranking:
        """Returns the best hits, sorted."""
        ...

    async def scores(self, generation: str, ids: Sequence[str], vector: Vector) -> Mapping[str, float]:
        """Returns the exact scores of the named documents, without those that are absent.

        A document whose sparse vector shares no term with the query scores 0.
        """
        ...

    async def finish(self, generation: str) -> None:
        """Waits until the approximate index is complete. Indexing continues after DeadlineExceeded: call again."""
        ...

    async def publish(self, generation: str, publication: int | None = None) -> None:
        """Makes this generation the published one of its name, atomically.

        Its number is the one asked for, but one above those of the other generations of its name if that is higher.
        """
        ...

    async def published(self) -> Mapping[str, str]:
        """Returns the published generation of each name that has one."""
        ...

    async def publication(self, generation: str) -> Publication | None:
        """Returns when it was last published, also if another has replaced it since; None if never. Publishing the
        published generation again changes nothing."""
        ...

    async def digest(self, generation: str) -> str:
        """Returns the ContentDigest over ids and content hashes of all documents; exact if no write runs meanwhile."""
        ...

    async def drop(self, generation: str) -> None:
        """Removes a generation with its documents."""
        ...

    async def close(self) -> None:
        """Closes files and connections. No other method may be called afterwards."""
        ...


def parts_to_send(points: Sequence[Point]) -> Iterator[slice]:
    """Divides points into requests that a server takes: of MOST_SENT components each, or one point."""
    start = components = 0
    for place, point in enumerate(points):
        size = point.vector.terms.size if isinstance(point.vector, SparseVector) else point.vector.size
        if start < place and components + size > MOST_SENT:
            yield slice(start, place)
            start, components = place, 0
        components += size
    if points:
        yield slice(start, len(points))


def refuse_other_spec(existing: GenerationSpec, wanted: GenerationSpec) -> None:
    """Raises StampMismatch if stamp, representation or declaration differ, BuildConflict if the build does."""
    refuse_other_stamp(existing.generation, existing.stamp, wanted.stamp)
    refuse_other_representation(existing, wanted.representation)
    refuse_other_declaration(existing.generation, existing.declaration, wanted.declaration)
    refuse_other_build(existing.generation, existing.build, wanted.build)


def refuse_other_representation(existing: GenerationSpec, wanted: Representation) -> None:
    """Raises StampMismatch, naming both, if a generation has another representation."""
    if existing.representation != wanted:
        raise StampMismatch(
            f"{existing.generation} holds vectors of the representation {existing.representation}, and this service "
            f"makes {wanted}; begin a new generation."
        )
