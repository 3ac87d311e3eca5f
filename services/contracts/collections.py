"""Collections: what is declared when one begins, and what each service says of its own index."""

import hashlib
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from services.contracts.base import Count, Generation, Name, Number, Weight, Wire
from services.contracts.documents import FieldName, IdsRequest, IndexRequest
from services.contracts.lists import Items

BuildToken = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
BuildMark = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
FieldKind = Literal["keyword", "number", "date"]
BuiltInPreset = Literal["beir", "anserini-flat", "anserini-multifield"]


def build_mark(token: str) -> str:
    """What services keep of a build token and show to everybody: whom a generation belongs to, not the token itself."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class LexicalPreset(Wire):
    """A lexical ranking of one's own: `flat` scores one field (title + newline + text), the others title and text."""

    name: Name
    match: Literal["flat", "best_fields", "most_fields"]
    k1: Annotated[Number, Field(ge=0.0, le=10.0)]
    b: Weight
    tie_breaker: Weight = 0.0  # best_fields only: the share of the weaker field


def _named_or_own(value: object) -> str:
    return "name" if isinstance(value, str) else "own"


# Told apart by type, so that a preset has one fault and not one as each of the two.
Preset = Annotated[
    Annotated[BuiltInPreset, Tag("name")] | Annotated[LexicalPreset, Tag("own")], Discriminator(_named_or_own)
]


class CollectionDeclaration(Wire):
    """What a collection serves: lexical presets (by name, or defined here) and the metadata fields to filter by."""

    presets: Annotated[tuple[Preset, ...], Items(1, 8)] = ("beir",)
    # Each is a field of the index, and Elasticsearch takes 1,000 in all.
    metadata: Annotated[dict[FieldName, FieldKind], Field(max_length=256)] = {}


class BeginCollection(CollectionDeclaration):
    """Begins a generation, or goes on with the live one if nothing in the declaration differs.

    `build` is a name of the caller's own for what it builds: with it the same call again goes on with the generation
    that it began. `new_generation` asks for a rebuild beside the live one even if nothing differs.
    """

    new_generation: bool = False
    build: BuildToken | None = None


class CollectionBegun(Wire):
    """A generation to send documents to. With a `build`, documents and publish name it, or they mean the live one."""

    collection: Name
    generation: Generation
    created: bool
    live: str | None  # the generation that searches see meanwhile
    build: str | None = None


class PublishRequest(Wire):
    """What to publish: the generation of a `build`, or a `generation` that was live before; by default the live one.

    `expected_documents` refuses to publish any other number of documents.
    """

    build: BuildToken | None = None
    generation: Generation | None = None
    expected_documents: Count | None = None


class DocumentsRequest(IndexRequest):
    """A batch at the gateway: for the generation of a `build`, or for the live one (and every build above it)."""

    build: BuildToken | None = None


class DeleteRequest(IdsRequest):
    """Ids at the gateway, out of the generation of a `build`, or out of the live one (and every build above it)."""

    build: BuildToken | None = None


class VectorState(Wire):
    """How much of a vector store is served by its approximate index (below its threshold a store scans exactly)."""

    vectors: Count
    indexed: Count


class CollectionState(Wire):
    """One generation in one service. `stamp` is all that decides its answers (preset parameters, weights hash, …).

    `build` marks whose build it is (`build_mark` of the token). `published_at` is when it last became the published one
    (Unix seconds), and stays when another takes its place. `digest` covers the id and content of every document,
    whatever their order; only the answer of `finish` carries it.
    """

    generation: Generation
    published: bool
    documents: Count
    engine: str
    stamp: dict[str, str]
    declaration: CollectionDeclaration
    vectors: VectorState | None = None
    build: str | None = None
    published_at: float | None = None
    digest: str | None = None


class Unusable(Wire):
    """A generation that is there and cannot be opened, and why. It is left as it is until it is removed."""

    generation: Generation
    reason: str


UnusableOnes = Annotated[tuple[Unusable, ...], Field(exclude_if=lambda unusable: not unusable)]


class CollectionStates(Wire):
    """Every generation that a service holds, and those that it cannot open."""

    collections: tuple[CollectionState, ...]
    unusable: UnusableOnes = ()


class BackendState(Wire):
    """A backend's view of a collection, or why it has none."""

    backend: str
    family: str
    reachable: bool
    generations: tuple[CollectionState, ...] = ()
    unusable: UnusableOnes = ()
    reason: str | None = None


class CollectionView(Wire):
    """A collection as the gateway sees it: the live generation, the one being built, and every backend's state."""

    collection: Name
    live: str | None
    building: str | None
    previous: str | None = None  # the generation that can be gone back to
    backends: tuple[BackendState, ...]


class CollectionList(Wire):
    """All collections of the gateway."""

    collections: tuple[CollectionView, ...]


class Published(Wire):
    """The generation that searches see from now on, and the document count on which all services agreed."""

    collection: Name
    generation: Generation
    documents: Count
    vectors: dict[str, VectorState] = {}  # by backend
