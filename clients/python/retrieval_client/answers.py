"""Owns what the gateway answers about searches, collections and pipelines. Names and fields are those of the wire.

Where the wire has a choice of words, these are any texts: a later gateway may have more.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from retrieval_client.documents import Answer, MetadataValue

FieldKind = Literal["keyword", "number", "date"]
ExpansionMethod = Literal["doc2query", "deepct"]


class FieldError(Answer):
    """The fault of one field of a request."""

    field: str
    message: str


class Problem(Answer):
    """Why a request was refused. `type` is stable; `detail` says what to do."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] = ()


class Boosts(Answer):
    """The factor of each field's scores."""

    title: float = 1.0
    text: float = 1.0


class LexicalPreset(Answer):
    """A lexical ranking that the caller defines; `match`: flat, best_fields, most_fields, doc2query, deepct.

    `language`: english, german, french, cjk ...
    """

    name: str
    match: str
    k1: float
    b: float
    tie_breaker: float = 0.0
    # Both are left out without them, so that an earlier gateway reads it.
    language: Annotated[str, Field(exclude_if=lambda language: language == "english")] = "english"
    boosts: Annotated[Boosts, Field(exclude_if=lambda boosts: boosts == Boosts())] = Boosts()


Preset = str | LexicalPreset


class CollectionDeclaration(Answer):
    """What a collection was begun with."""

    presets: tuple[Preset, ...] = ("beir",)
    metadata: dict[str, str] = {}
    backends: tuple[str, ...] | None = None
    expansions: dict[str, str] = {}


class CollectionBegun(Answer):
    """A generation to send documents to; with a `build`, documents and publish name it."""

    collection: str
    generation: str
    created: bool
    live: str | None
    build: str | None = None


class VectorState(Answer):
    """How many vectors the approximate index covers."""

    vectors: int
    indexed: int


class CollectionState(Answer):
    """One generation in one service. `stamp` holds all that determines its answers."""

    generation: str
    published: bool
    documents: int
    engine: str
    stamp: dict[str, str]
    declaration: CollectionDeclaration
    vectors: VectorState | None = None
    build: str | None = None
    published_at: float | None = None
    publication: int | None = None
    owner: str | None = None
    digest: str | None = None
    bytes: int | None = None


class Unusable(Answer):
    """A generation that exists but cannot be opened, and why."""

    generation: str
    reason: str


class BackendState(Answer):
    """The state of a collection in one backend, or why it is unknown."""

    backend: str
    family: str
    reachable: bool
    generations: tuple[CollectionState, ...] = ()
    unusable: tuple[Unusable, ...] = ()
    reason: str | None = None


class PublishJob(Answer):
    """A publication that is running, or has failed by a `problem`. `phase`: fill, finish, compare, switch."""

    generation: str
    state: str
    phase: str
    waiting_for: tuple[str, ...] = ()
    started_at: float
    problem: str | None = None


class CollectionView(Answer):
    """A collection: the live generation, the one being built, and every backend's state."""

    collection: str
    live: str | None
    building: str | None
    previous: str | None = None
    backends: tuple[BackendState, ...]
    publishing: tuple[PublishJob, ...] = ()


class CollectionList(Answer):
    """All collections, and the names of the backends that can store one."""

    collections: tuple[CollectionView, ...]
    backends: tuple[str, ...] = ()


class Published(Answer):
    """The generation that searches now use, and how many documents it has."""

    collection: str
    generation: str
    documents: int
    vectors: dict[str, VectorState] = {}


class PipelineView(Answer):
    """A pipeline that the gateway serves; `pipeline` can be changed and sent with a search."""

    name: str
    fingerprint: str
    pipeline: dict[str, Any]


class PipelineList(Answer):
    """The pipelines that a search can name."""

    pipelines: tuple[PipelineView, ...]


class PipelineChanges(Answer):
    """The names of pipelines that a reload added, changed, removed or left unchanged."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


class Match(Answer):
    """A part of the query, the part of the document that it matched, and what that adds to the score."""

    query: str
    document: str
    query_weight: float
    document_weight: float
    score: float


class StagePlace(Answer):
    """The rank and score that a stage gave a document, and what matched."""

    rank: int
    score: float
    matches: tuple[Match, ...] | None = None


class Fragment(Answer):
    """A part of a field from the character `start`; `matches`: first character and end of words, within `text`."""

    start: int
    text: str
    matches: tuple[tuple[int, int], ...]


class Highlights(Answer):
    """The fragments of a document that hold words of the query."""

    title: tuple[Fragment, ...] = ()
    text: tuple[Fragment, ...] = ()


class SearchHit(Answer):
    """A document of the answer; its parts are there where the search includes them."""

    id: str
    rank: int
    score: float
    title: str | None = None
    text: str | None = None
    metadata: dict[str, MetadataValue] | None = None
    highlights: Highlights | None = None
    stages: dict[str, StagePlace] | None = None


class Candidate(Answer):
    """A document that a stage found."""

    id: str
    score: float


class StageCandidates(Answer):
    """Everything that a stage gave, best first."""

    ranking: tuple[Candidate, ...]
    least_score: float | None = None
    model_scores: dict[str, float] | None = None
    weight: float | None = None


class Degradation(Answer):
    """A stage that did less than the pipeline says: `done` of `of` units."""

    stage: str
    reason: str
    detail: str
    done: int
    of: int


class PipelineRef(Answer):
    """The pipeline that made an answer."""

    name: str
    fingerprint: str


class SearchPage(Answer):
    """Where the hits of an answer lie, and whether there are `more` behind them."""

    offset: int
    candidates: int
    more: bool


class ValueCount(Answer):
    """How many documents have a value."""

    value: str
    count: int


class RangeCount(Answer):
    """How many documents have a value in a range: `from_` inclusive, `to` exclusive."""

    from_: int | float | str | None = Field(default=None, alias="from")
    to: int | float | str | None = None
    count: int


class FacetCounts(Answer):
    """The counts of a facet: the most frequent `values`, or `ranges` in the order asked for."""

    values: tuple[ValueCount, ...] | None = None
    ranges: tuple[RangeCount, ...] | None = None


class Matches(Answer):
    """Counts of all documents that match: in `total`, and by field of `facets`."""

    total: int | None = None
    facets: dict[str, FacetCounts] | None = None


class SearchAnswer(Answer):
    """Ranked documents, and the generation, pipeline and models behind them."""

    collection: str
    pipeline: PipelineRef
    request_id: str
    hits: tuple[SearchHit, ...]
    page: SearchPage | None = None
    matches: Matches | None = None
    candidates: dict[str, StageCandidates] | None = None
    degraded: tuple[Degradation, ...] = ()
    models: dict[str, str] = {}
    timings_ms: dict[str, float]
