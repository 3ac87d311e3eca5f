"""The port of the vector services: what a store of vectors promises, and the values that go in and out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration, Unusable
from services.contracts.health import Check
from services.contracts.retrieval import RetrievedHit
from services.storage.builds import refuse_other_build
from services.storage.fields import FieldValue, Requirement
from services.storage.stamps import refuse_other_declaration, refuse_other_stamp
from services.vectorstore.representation import Representation, Vector


@dataclass(frozen=True, slots=True)
class Made:
    """What a generation is made of. `stamp` is all that decides its vectors, `representation` what they are.

    `build` marks whose build it is; None belongs to nobody, and asks for none.
    """

    generation: str
    representation: Representation
    stamp: Mapping[str, str]
    declaration: CollectionDeclaration
    build: str | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """Documents held, and how many of their vectors the approximate index covers (the others are scanned)."""

    documents: int
    indexed: int


@dataclass(frozen=True, slots=True)
class Point:
    """A document as a store keeps it: the caller's id, a vector, two hashes, and the declared fields."""

    id: str
    vector: Vector
    content_hash: str
    passage_hash: str
    fields: Mapping[str, FieldValue]


@dataclass(frozen=True, slots=True)
class StoredPoint:
    """What is already held under an id; `vector` only when asked for."""

    content_hash: str
    passage_hash: str
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class VectorQuery:
    """The `top` best of those that meet all of `where`, without `exclude_ids`; VectorStore says what `exact` is."""

    vector: Vector
    top: int
    exact: bool = False
    where: tuple[Requirement, ...] = ()
    exclude_ids: tuple[str, ...] = ()


class VectorStore(Protocol):
    """Keeps vectors by generation (`name@N`) and finds the best for a query.

    - The representation of a generation decides the score: dot product or cosine (dense), inner product (sparse),
      MaxSim (multi-vector).
    - A search of dense or multi-vectors is approximate once they are indexed; `exact` scores every document. A search
      of sparse vectors is exact always; it finds only documents that have a term of the query, and may leave out those
      that score exactly 0.
    - Ids are the caller's; whatever the engine calls a point stays inside.
    - Adding again under an id replaces; deleting what is not there is no error.
    - An acknowledged change is seen by the next search, and survives the end of the process, however abrupt.
    - Hits come best first, equal scores by ascending id, also at the cut, as long as at most `ties.MOST_EXTRA`
      documents tie with the last place (an approximate search orders those that it found).
    - Vectors come back bit by bit as they were given, by cosine scaled to length 1, which changes no copy again. A
      vector that is not finite or is none of the representation is refused (BadInput), on the way in and as a query.
    - A generation that is not there raises UnknownCollection. What was made with another stamp or declaration is
      never opened for `create` (StampMismatch), nor is what belongs to another build (BuildConflict).
    - At most one generation of a name is published; a newly made one is not.
    - A generation that cannot be opened keeps no other from serving: it is `unusable` and left as it is, whatever asks
      for it raises DamagedCollection, and it can be dropped.
    - A store that cannot be reached raises Unavailable, one that is late DeadlineExceeded, and both recover by
      themselves.
    """

    @property
    def engine(self) -> str:
        """Its name and version, for states and manifests."""
        ...

    async def ready(self) -> Check:
        """Whether it can be used now; never raises."""
        ...

    async def generations(self) -> tuple[str, ...]:
        """Every generation held, sorted by name and number."""
        ...

    async def unusable(self) -> tuple[Unusable, ...]:
        """Generations that are there and cannot be opened, and why."""
        ...

    async def create(self, made: Made) -> None:
        """Begins an empty generation; does nothing if it is there and was made of the same."""
        ...

    async def made(self, generation: str) -> Made:
        """What a generation is made of."""
        ...

    async def counts(self, generation: str) -> Counts:
        """How much it holds."""
        ...

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """What is held under these ids; absent ids are absent."""
        ...

    async def upsert(self, generation: str, points: Sequence[Point]) -> None:
        """Adds or replaces."""
        ...

    async def delete(self, generation: str, ids: Sequence[str]) -> int:
        """Removes by id; how many there were."""
        ...

    async def search(self, generation: str, query: VectorQuery) -> tuple[RetrievedHit, ...]:
        """The nearest vectors."""
        ...

    async def finish(self, generation: str) -> None:
        """Returns when the approximate index is as complete as it gets. Cut off by a deadline, it goes on inside;
        call again."""
        ...

    async def publish(self, generation: str) -> None:
        """Makes this generation the published one of its name, in one step."""
        ...

    async def published(self) -> Mapping[str, str]:
        """The published generation of each name that has one."""
        ...

    async def published_at(self, generation: str) -> float | None:
        """When it last became the published one of its name (Unix seconds), also after another took its place; None if
        it never was. Publishing the published one again changes nothing."""
        ...

    async def digest(self, generation: str) -> str:
        """ContentDigest over the ids and content hashes of all documents; exact while nobody writes."""
        ...

    async def drop(self, generation: str) -> None:
        """Removes a generation and all that it holds."""
        ...

    async def close(self) -> None:
        """Lets go of files and connections. Nothing may be asked afterwards."""
        ...


def beam(limit: int) -> int:
    """How many candidates an approximate search keeps for `limit` hits.

    On NFCorpus recall@10 was 0.990 with 128 candidates and 0.998 with 256 (services/vectorstore/README.md).
    """
    return max(256, 2 * limit)


def refuse_another(there: Made, wanted: Made) -> None:
    """Raises StampMismatch when stamp, representation or declaration differ; BuildConflict when the build does."""
    refuse_other_stamp(there.generation, there.stamp, wanted.stamp)
    refuse_other_representation(there, wanted.representation)
    refuse_other_declaration(there.generation, there.declaration, wanted.declaration)
    refuse_other_build(there.generation, there.build, wanted.build)


def refuse_other_representation(there: Made, wanted: Representation) -> None:
    """Raises StampMismatch, naming both, when a generation holds other vectors than these."""
    if there.representation != wanted:
        raise StampMismatch(
            f"{there.generation} holds vectors of {there.representation} and is asked for with those of {wanted}; "
            "begin a new generation."
        )
