"""Owns the wire of collections: declaration, build, publication, and the state of each service's index."""

import hashlib
from operator import not_
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Discriminator, Field, JsonValue, Tag, model_validator

from services.contracts.base import Count, DocumentId, FieldName, Language, Name, Number, Weight, Wire
from services.contracts.documents import IndexRequest, MetadataUpdate
from services.contracts.expansions import ExpansionMethod, ExpansionModel
from services.contracts.filters import Filter
from services.contracts.generations import Generation
from services.contracts.lists import Items

BuildToken = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
BuildMark = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
# Who began a collection: the id of an API key, or `token` for our own processes.
OwnerId = Annotated[str, Field(pattern=r"^([0-9a-f]{12}|token)$")]
# The place of a publication among those of a collection.
PublicationNumber = Annotated[int, Field(ge=1, lt=2**63)]
FieldKind = Literal["keyword", "number", "date"]
# `fill` copies the live documents, `finish` builds indexes, `compare` repeats it without writes, `switch` publishes.
PublishPhase = Literal["fill", "finish", "compare", "switch"]
Boost = Annotated[Number, Field(gt=0.0, le=1_000.0)]
BuiltInPreset = Literal["beir", "anserini-flat", "anserini-multifield", "doc2query", "deepct"]

# The document of the examples in the OpenAPI document.
KETTLE: JsonValue = {"id": "kettle", "text": "Boils a litre of water.", "metadata": {"year": 2021}}


def build_mark(token: str) -> str:
    """Hashes a build token. Services store and show the hash, which names the owner without giving the token away."""
    return hashlib.sha256(token.encode()).hexdigest()[:16]


class Boosts(Wire):
    """The factor of each field's scores."""

    title: Boost = 1.0
    text: Boost = 1.0


class LexicalPreset(Wire):
    """A lexical ranking that the caller defines.

    `flat` scores title + newline + text as one field, `best_fields` and `most_fields` two, `doc2query` that one field
    with the generated queries, `deepct` the word frequencies alone. `language` is that of the documents and queries.
    `boosts` are factors of the two fields' scores.
    """

    name: Name
    match: Literal["flat", "best_fields", "most_fields", "doc2query", "deepct"]
    k1: Annotated[Number, Field(ge=0.0, le=100.0)]
    b: Weight
    tie_breaker: Weight = 0.0  # best_fields only: the share of the weaker field
    # All are left out without them, so that an earlier release reads the preset.
    language: Annotated[Language, Field(exclude_if=lambda language: language == "english")] = "english"
    boosts: Annotated[Boosts, Field(exclude_if=lambda boosts: boosts == Boosts())] = Boosts()

    @model_validator(mode="after")
    def _boosts_fields_that_it_scores(self) -> Self:
        if self.boosts != Boosts() and self.match not in ("best_fields", "most_fields"):
            raise ValueError(
                f"boosts: only best_fields and most_fields score two fields, not {self.match}; leave it out"
            )
        return self


# Discriminated by type, so that a faulty preset gives one error, not one for each member of the union.
Preset = Annotated[
    Annotated[BuiltInPreset, Tag("name")] | Annotated[LexicalPreset, Tag("own")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "own"),
]

BackendNames = Annotated[tuple[Name, ...], Items(1, 32)]


class CollectionDeclaration(Wire):
    """The lexical presets of a collection (by name, or defined here) and the metadata fields that filters may use.

    `backends`: the storing backends, by name, that hold a generation; None: the first of each of the families lexical
    and dense.
    `pipeline`: by which it is searched where a search names none.
    `expansions`: the model of each expansion that every document carries.
    """

    presets: Annotated[tuple[Preset, ...], Items(1, 8)] = ("beir",)
    # Each becomes a field of the index, and Elasticsearch allows 1,000 in all.
    metadata: Annotated[dict[FieldName, FieldKind], Field(max_length=256)] = {}
    # All are left out without them, so that an earlier release reads the declaration.
    backends: Annotated[BackendNames | None, Field(exclude_if=lambda names: names is None)] = None
    expansions: Annotated[dict[ExpansionMethod, ExpansionModel], Field(exclude_if=not_)] = {}
    pipeline: Annotated[Name | None, Field(exclude_if=not_)] = None

    def language_of(self, preset: str | None) -> Language:
        """Returns the language of the preset of this name; of the first one without a name."""
        for declared in self.presets:
            name, language = (declared, "english") if isinstance(declared, str) else (declared.name, declared.language)
            if preset in (None, name):
                return language
        return "english"

    @model_validator(mode="after")
    def _has_what_presets_score(self) -> Self:
        for preset in self.presets:
            needed = preset if isinstance(preset, str) else preset.match
            if needed in ("doc2query", "deepct") and needed not in self.expansions:
                raise ValueError(
                    f"presets: {needed} scores expansions; declare their model: "
                    f'"expansions": {{"{needed}": "NAME@SHA256"}}'
                )
        return self


class BeginCollection(CollectionDeclaration):
    """Begins a generation, or continues the live one if the declaration is unchanged.

    `backends` asks for these at least, and for the document store; a generation that lives on more is continued. Where
    the live one lacks one, a new generation begins on its backends and these, which `publish` with `fill` fills.
    Without `backends` any is continued, and a new one lives on the first of each of the families lexical, dense and
    late_interaction.

    `build` is a name that the caller chooses: repeating the call with it continues the generation that it began.
    `new_generation` asks for a rebuild beside the live generation even if the declaration is unchanged. `owner` gives
    the collection to another key, from the generation that this call begins on; it needs the scope admin.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"build": "first-load", "metadata": {"year": "number"}}]})

    new_generation: bool = False
    build: BuildToken | None = None
    owner: OwnerId | None = None


class CollectionBegun(Wire):
    """A generation to send documents to. If `build` is set, documents and publish must name it to reach it."""

    collection: Name
    generation: Generation
    created: bool
    live: str | None  # the generation that searches use meanwhile
    build: str | None = None


class PublishRequest(Wire):
    """Names what to publish: the generation of a `build`, or a `generation` that was live before; else the live one.

    With `expected_documents`, any other number of documents is refused. `fill` first copies the documents of the live
    generation into the build, for one of another model or of other backends.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"build": "first-load", "expected_documents": 1}]})

    build: BuildToken | None = None
    generation: Generation | None = None
    expected_documents: Count | None = None
    fill: bool = False

    @model_validator(mode="after")
    def _fills_a_build(self) -> Self:
        if self.fill and self.build is None:
            raise ValueError("fill: name the `build` that it fills")
        return self


class DiscardRequest(Wire):
    """Names a build that is given up: its generation is removed."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"build": "first-load"}]})

    build: BuildToken


class DocumentsRequest(IndexRequest):
    """A batch sent to the gateway: for the generation of a `build`, or for the live one and every newer build."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"build": "first-load", "documents": [KETTLE]}]})

    build: BuildToken | None = None


class MetadataRequest(Wire):
    """Changes of metadata alone: of the generation of a `build`, or of the live one and every newer build."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"documents": [{"id": "kettle", "metadata": {"year": 2022}}]}]}
    )

    documents: Annotated[tuple[MetadataUpdate, ...], Items(1, 256, fail_fast=True)]
    build: BuildToken | None = None

    @model_validator(mode="after")
    def _has_each_once(self) -> Self:
        if len({document.id for document in self.documents}) < len(self.documents):
            raise ValueError("documents: an id is there twice; send all fields of a document at once")
        return self


class DeleteRequest(Wire):
    """Documents to delete from the generation of a `build`, or from the live one and every newer build: by their ids,
    or the first 1,000 that pass a filter (there, or in the live one)."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["kettle"]}]})

    ids: Annotated[tuple[DocumentId, ...], Items(1, 1_000)] | None = None
    filter: Filter | None = None
    build: BuildToken | None = None

    @model_validator(mode="after")
    def _names_documents(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("send either `ids` or a `filter`")
        return self


class VectorState(Wire):
    """How many vectors the approximate index covers. Below its threshold a store scans exactly."""

    vectors: Count
    indexed: Count


class CollectionState(Wire):
    """One generation in one service. `stamp` holds all that determines its answers (preset parameters, weights hash …).

    `build` is the `build_mark` of its build's token. `published_at` is when it was last published (Unix seconds, by the
    clock of its service), `publication` the place of that among the publications of the collection; both stay when
    another generation is published. `owner` is who owned the collection when the
    generation was begun; None where callers needed no key. `digest` covers the id and content of every document in any
    order; only the answer of `finish` has it. `bytes` is what one copy of the index takes on the disk, with everything
    that its engine keeps there, such as texts, but Edge's write-ahead log; null where the engine does not say.
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
    # Left out without one, as `owner` is, so that an earlier gateway reads the answer.
    publication: Annotated[PublicationNumber | None, Field(exclude_if=lambda number: number is None)] = None
    owner: Annotated[OwnerId | None, Field(exclude_if=lambda owner: owner is None)] = None
    digest: str | None = None
    bytes: Count | None = None


class Unusable(Wire):
    """A generation that exists but cannot be opened, and why. It stays unchanged until it is removed."""

    generation: Generation
    reason: str


UnusableOnes = Annotated[tuple[Unusable, ...], Field(exclude_if=lambda unusable: not unusable)]


class CollectionStates(Wire):
    """Every generation of a service, and those that it cannot open.

    `now` is the service's clock (Unix seconds): the age of a publication is `now` less its `published_at`, and no other
    clock's time. None from a release that does not send it.
    """

    collections: tuple[CollectionState, ...]
    unusable: UnusableOnes = ()
    now: Annotated[float | None, Field(exclude_if=lambda now: now is None)] = None


class BackendState(Wire):
    """The state of a collection in one backend, or why it is unknown."""

    backend: str
    family: str
    reachable: bool
    generations: tuple[CollectionState, ...] = ()
    unusable: UnusableOnes = ()
    reason: str | None = None


class PublishJob(Wire):
    """A publication that this gateway runs, or has run last. It goes on when the call that began it has ended.

    `waiting_for`: the backends that have not finished their index. `problem`: why it failed; publish again to go on.
    """

    generation: Generation
    state: Literal["running", "failed", "published"]
    phase: PublishPhase
    waiting_for: tuple[Name, ...] = ()
    started_at: float  # Unix seconds
    problem: str | None = None


class CollectionView(Wire):
    """A collection in the gateway's view: the live generation, the one being built, and every backend's state."""

    collection: Name
    live: str | None
    building: str | None
    previous: str | None = None  # the generation that a rollback would publish
    backends: tuple[BackendState, ...]
    publishing: Annotated[tuple[PublishJob, ...], Field(exclude_if=not_)] = ()


class CollectionList(Wire):
    """All collections of the gateway, and the names of its backends that can store one."""

    collections: tuple[CollectionView, ...]
    backends: tuple[str, ...] = ()


class Published(Wire):
    """The generation that searches now use, and the document count on which all services agree."""

    collection: Name
    generation: Generation
    documents: Count
    vectors: dict[str, VectorState] = {}  # by backend
