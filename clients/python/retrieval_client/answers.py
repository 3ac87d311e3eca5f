"""Models of the wire. `.venv/bin/python -m workshop.client_wire` generates them from the contracts: do not edit.

Where the wire has a choice of words, an answer has any text: a later gateway may have more.
"""
# fmt: off
# ruff: noqa: E501, UP013

from collections.abc import Sequence
from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict, Field

MetadataValue = bool | int | float | str | tuple[str, ...]
FieldKind = Literal["keyword", "number", "date"]
ExpansionMethod = Literal["doc2query", "deepct"]

Condition = TypedDict("Condition", {"field": str, "op": Literal["eq", "in", "gt", "gte", "lt", "lte", "exists"], "value": NotRequired[bool | int | float | str | Sequence[bool | int | float | str]]})
Filter = TypedDict("Filter", {"all": NotRequired["Sequence[Condition | Filter]"], "any": NotRequired["Sequence[Condition | Filter]"], "not": NotRequired["Condition | Filter"]})
Range = TypedDict("Range", {"from": NotRequired[int | float | str], "to": NotRequired[int | float | str]})
Facet = TypedDict("Facet", {"field": str, "top": NotRequired[int], "ranges": NotRequired["Sequence[Range]"]})
Sort = TypedDict("Sort", {"field": str, "order": NotRequired[Literal["asc", "desc"]]})
Boosts = TypedDict("Boosts", {"title": NotRequired[float], "text": NotRequired[float]})
LexicalPreset = TypedDict("LexicalPreset", {"name": str, "match": Literal["flat", "best_fields", "most_fields", "doc2query", "deepct"], "k1": float, "b": float, "tie_breaker": NotRequired[float], "language": NotRequired[Literal["english", "cjk", "danish", "dutch", "finnish", "french", "german", "hungarian", "indonesian", "italian", "norwegian", "portuguese", "russian", "spanish", "swedish"]], "boosts": NotRequired["Boosts"]})
class Answer(BaseModel):
    """A frozen value that the gateway sent. Fields that a later gateway adds are ignored."""
    model_config = ConfigDict(frozen=True)
class FieldError(Answer):
    """The fault of one field. Never contains the value itself."""
    field: str
    message: str
class Problem(Answer):
    """The body of `application/problem+json`. `type` is stable (`urn:problem:not-found`); `detail` says what to do."""
    type: str
    title: str
    status: int
    detail: str
    request_id: str
    errors: tuple[FieldError, ...] = ()
class PipelineRef(Answer):
    """Identifies the pipeline that made an answer."""
    name: str
    fingerprint: str
class Fragment(Answer):
    """A part of a field, `start` characters behind its beginning, in Unicode's NFC."""
    start: int
    text: str
    matches: tuple[tuple[int, int], ...]
class Highlights(Answer):
    """The fragments of a document, those with most of the query's words first. A title is one fragment, and whole."""
    title: tuple[Fragment, ...] = ()
    text: tuple[Fragment, ...] = ()
class SearchHit(Answer):
    """A document of the answer. Its rank is authoritative. What follows the score is there on request alone."""
    id: str
    rank: int
    score: float
    title: str | None = None
    text: str | None = None
    metadata: dict[str, MetadataValue] | None = None
    highlights: Highlights | None = None
    team: str | None = None
class SearchPage(Answer):
    """Where the hits of an answer lie: behind `offset` others."""
    offset: int
    candidates: int
    more: bool
class ValueCount(Answer):
    """How many documents have a value."""
    value: str
    count: int
class RangeCount(Answer):
    """How many documents have a value in a range."""
    from_: int | float | str | None = Field(None, alias="from")
    to: int | float | str | None = None
    count: int
class FacetCounts(Answer):
    """The counts of a facet: of values the highest first, equal ones by value; of ranges in the order asked for."""
    values: tuple[ValueCount, ...] | None = None
    ranges: tuple[RangeCount, ...] | None = None
class Matches(Answer):
    """Counts of documents, those that were asked for: `total`, and `facets` by field."""
    relation: str = "all"
    total: int | None = None
    facets: dict[str, FacetCounts] | None = None
class Degradation(Answer):
    """A stage that did less than the pipeline says: `done` of `of` units (inputs, candidates, documents)."""
    stage: str
    reason: str
    detail: str
    done: int
    of: int
class ExperimentRef(Answer):
    """The experiment behind an answer, and the arm of its unit; an interleaving has no arm."""
    name: str
    arm: str | None = None
class SearchAnswer(Answer):
    """Ranked documents, and the generation, pipeline and models behind them. `collection` is a generation (`c@2`)."""
    collection: str
    pipeline: PipelineRef
    request_id: str
    hits: tuple[SearchHit, ...]
    page: SearchPage | None = None
    matches: Matches | None = None
    degraded: tuple[Degradation, ...] = ()
    models: dict[str, str] = {}
    timings_ms: dict[str, float]
    experiment: ExperimentRef | None = None
class Document(Answer):
    """A document under the caller's own id. Control characters are stripped from its text and counted (`stripped`)."""
    id: str
    title: str = ""
    text: str = ""
    metadata: dict[str, MetadataValue] = {}
    expansions: dict[str, Any] | None = None
class DocumentsAnswer(Answer):
    """The documents found, in the order of the ids asked for; ids without a document are in `missing`."""
    documents: tuple[Document, ...]
    missing: tuple[str, ...] = ()
class DocumentsPage(Answer):
    """A page of a generation's documents, in the document store's order; `following` is None at the end."""
    generation: str
    documents: tuple[Document, ...]
    following: str | None
class ItemError(Answer):
    """Why one document was not taken. `retryable`: it may be taken when sent again, because the service was full."""
    id: str
    reason: str
    retryable: bool = False
    overtaken: bool = False
class ReadTokens(Answer):
    """How much a model read of the texts that it encoded, in its tokens. `longer` ones have more than `limit`, together `longer_tokens`, of which it read all but `unread`. Of `foreign` ones it read `foreign_tokens`, of which `unknown`, above a tenth of each, are not in its vocabulary."""
    limit: int
    longer: int
    longer_tokens: int
    unread: int
    foreign: int
    foreign_tokens: int
    unknown: int
class IndexReport(Answer):
    """What one service did with a batch. `indexed` + `unchanged` + `errors` = documents sent."""
    indexed: int
    unchanged: int
    errors: tuple[ItemError, ...] = ()
    encoded: int = 0
    read: ReadTokens | None = None
class DeleteReport(Answer):
    """How many documents were deleted, and which were kept because a newer write had been taken."""
    deleted: int
    errors: tuple[ItemError, ...] = ()
class ServiceOutcome(Answer):
    """The result of a request at one backend, in the gateway's report."""
    backend: str
    status: str
    report: IndexReport | DeleteReport | None = None
    reason: str | None = None
class FanOutReport(Answer):
    """The gateway's report of a batch: complete only when every service took every document."""
    collection: str
    complete: bool
    documents: int
    stripped_characters: int = 0
    undeclared_metadata: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    more: bool = False
    services: tuple[ServiceOutcome, ...]
class CollectionBegun(Answer):
    """A generation to send documents to. If `build` is set, documents and publish must name it to reach it."""
    collection: str
    generation: str
    created: bool
    live: str | None
    build: str | None = None
class CollectionDeclaration(Answer):
    """The lexical presets of a collection (by name, or defined here) and the metadata fields that filters may use."""
    presets: tuple[str | dict[str, Any], ...] = ('beir',)
    metadata: dict[str, str] = {}
    backends: tuple[str, ...] | None = None
    expansions: dict[str, str] = {}
    pipeline: str | None = None
class VectorState(Answer):
    """How many vectors the approximate index covers. Below its threshold a store scans exactly."""
    vectors: int
    indexed: int
class CollectionState(Answer):
    """One generation in one service. `stamp` holds all that determines its answers (preset parameters, weights hash …)."""
    generation: str
    published: bool
    documents: int
    engine: str
    stamp: dict[str, str]
    declaration: CollectionDeclaration
    vectors: VectorState | None = None
    build: str | None = None
    published_at: float | None = None
    owner: str | None = None
    digest: str | None = None
    bytes: int | None = None
class Unusable(Answer):
    """A generation that exists but cannot be opened, and why. It stays unchanged until it is removed."""
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
    """A publication that this gateway runs, or has run last. It goes on when the call that began it has ended."""
    generation: str
    state: str
    phase: str
    waiting_for: tuple[str, ...] = ()
    started_at: float
    problem: str | None = None
class CollectionView(Answer):
    """A collection in the gateway's view: the live generation, the one being built, and every backend's state."""
    collection: str
    live: str | None
    building: str | None
    previous: str | None = None
    backends: tuple[BackendState, ...]
    publishing: tuple[PublishJob, ...] = ()
class CollectionList(Answer):
    """All collections of the gateway, and the names of its backends that can store one."""
    collections: tuple[CollectionView, ...]
    backends: tuple[str, ...] = ()
class Published(Answer):
    """The generation that searches now use, and the document count on which all services agree."""
    collection: str
    generation: str
    documents: int
    vectors: dict[str, VectorState] = {}
class PipelineView(Answer):
    """A pipeline that the gateway serves."""
    name: str
    fingerprint: str
    pipeline: dict[str, Any]
class PipelineList(Answer):
    """The pipelines and experiments that a search can name."""
    pipelines: tuple[PipelineView, ...]
    experiments: tuple[dict[str, Any], ...] = ()
Preset = str | LexicalPreset
