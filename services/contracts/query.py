"""Owns the wire of a search through the gateway: request and answer."""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Discriminator, FiniteFloat, Tag, model_validator

from services.contracts.base import DEEPEST, Count, Depth, Name, Number, OptionalQuery, Wire
from services.contracts.documents import Included, MetadataValue
from services.contracts.explanation import Match
from services.contracts.filters import Filter
from services.contracts.highlights import Fragments, Highlights
from services.contracts.lists import Items
from services.contracts.matches import Facets, Matches
from services.contracts.online import ExperimentRef
from services.contracts.pipelines import Pipeline, Retrieve
from services.contracts.retrieval import ExcludedIds, Sort, WireRanking

Reason = Literal["timeout", "unreachable", "overloaded", "refused", "failed", "deadline", "no_document_store"]
# Every retrieve of a pipeline analyses the whole query, so the cost is retrieves times characters.
MOST_ANALYSED = 65_536

# Discriminated by type, so that a fault in an inline pipeline is not reported as a bad name too.
AskedPipeline = Annotated[
    Annotated[Name, Tag("name")] | Annotated[Pipeline, Tag("inline")],
    Discriminator(lambda value: "name" if isinstance(value, str) else "inline"),
]


class SearchRequest(Wire):
    """A query for a collection, through a pipeline by name or (where the gateway allows it) inline.

    Without a `pipeline` it is that of the collection's declaration, else the first of hybrid-colbert, hybrid, bm25 that
    the gateway serves and that the collection's backends suffice for.

    Without a query the documents that pass the filter are listed, whatever the pipeline: by `sort`, else in ascending
    order of id. The pipeline of the answer is then `browse`, and all scores are 0. With a query, `sort` puts the
    candidates in this order, and `min_score` leaves out those of a lower score.

    `explain` adds to each hit its places in the stages. `true` adds to them what matched, where a backend explains;
    "candidates" adds to the answer what each stage gave. `offset` skips hits: the answer has the page of `top` hits
    after them, as a larger `top` would have given them, and `page`. `highlight` adds to each hit at most so many
    fragments of its text with words of the query, whichever stage found it.

    `facets` and `total` add `matches`. Where a lexical retrieve is the only source, and nothing cuts, it counts all
    documents that pass the filter and share a word with the query; without a query all that pass. In any other
    pipeline, or with `min_score` or `sort`, the candidates are counted. No hits beneath the candidates follow where
    these are counted, chosen or sorted: total, facets, pages and hits are of the same documents.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "boil water for tea", "top": 2, "include": ["title"]}]}
    )

    query: OptionalQuery = ""
    pipeline: AskedPipeline | None = None
    top: Depth = 10
    offset: Count | None = None
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()
    sort: Sort | None = None
    include: Annotated[tuple[Included, ...], Items(0, 3)] = ()
    highlight: Fragments | None = None
    min_score: Number | None = None
    facets: Facets = ()
    total: bool = False
    explain: bool | Literal["candidates"] = False

    @property
    def depth(self) -> int:
        """How many hits of the ranking the answer needs. One behind a page shows whether more follow."""
        return self.top if self.offset is None else min(self.offset + self.top + 1, DEEPEST)

    @property
    def counts(self) -> bool:
        """Whether the answer has counts of the matches."""
        return self.total or bool(self.facets)

    @model_validator(mode="after")
    def _has_scores(self) -> Self:
        if self.min_score is not None and not self.query:
            raise ValueError("min_score: documents are listed without scores; leave out min_score, or send a query")
        return self

    @model_validator(mode="after")
    def _affordable(self) -> Self:
        if isinstance(self.pipeline, Pipeline):
            retrieves = sum(isinstance(item.stage, Retrieve) for item in self.pipeline.identified)
            if retrieves * len(self.query) > MOST_ANALYSED:
                raise ValueError(
                    f"pipeline: {retrieves} retrieves of a query of {len(self.query)} characters; their product may be"
                    f" {MOST_ANALYSED} at most: shorten the query or leave retrieves out"
                )
        return self


class StagePlace(Wire):
    """The rank and score that a stage gave a document. Scores of different stages are not comparable.

    `matches`: what in the document matched the query, the highest score first, where the stage's backend explains.
    """

    rank: Count
    score: FiniteFloat
    matches: tuple[Match, ...] | None = None


class SearchHit(Wire):
    """A document of the answer. Its rank is authoritative. What follows the score is there on request alone."""

    id: str
    rank: Count
    score: FiniteFloat
    title: str | None = None
    text: str | None = None
    metadata: dict[str, MetadataValue] | None = None
    highlights: Highlights | None = None
    stages: dict[str, StagePlace] | None = None
    team: Name | None = None


class StageCandidates(Wire):
    """Everything that a stage gave, best first. The depths of the pipeline decide how many, not the request's `top`.

    `least_score` is the least that a source's scores can be, if there is such a bound. Of a re-ranker: the scores of
    its model by id of the scored ones, and the `weight` that it recommends.
    """

    ranking: WireRanking
    least_score: FiniteFloat | None = None
    model_scores: dict[str, FiniteFloat] | None = None
    weight: FiniteFloat | None = None


class Degradation(Wire):
    """A stage that did less than the pipeline says: `done` of `of` units (inputs, candidates, documents).

    A later release may add reasons, so readers must accept any.
    """

    stage: str
    reason: Reason | str
    detail: str
    done: Count
    of: Count


class PipelineRef(Wire):
    """Identifies the pipeline that made an answer."""

    name: Name
    fingerprint: str


class SearchPage(Wire):
    """Where the hits of an answer lie: behind `offset` others.

    `candidates`: how many the pipeline has for this query. Hits beneath these follow as far as the 1,000th. `more`:
    whether there is a hit behind this page.
    """

    offset: Count
    candidates: Count
    more: bool


class SearchAnswer(Wire):
    """Ranked documents, and the generation, pipeline and models behind them. `collection` is a generation (`c@2`)."""

    collection: str
    pipeline: PipelineRef
    request_id: str
    hits: tuple[SearchHit, ...]
    page: SearchPage | None = None  # where the request has an `offset`
    matches: Matches | None = None  # where the request has `facets` or `total`
    candidates: dict[str, StageCandidates] | None = None  # by stage id, inputs before their fuse; only on request
    degraded: tuple[Degradation, ...] = ()
    models: dict[str, str] = {}  # by id of its rerank stage: `name@first 12 digits of the weights' sha256`, or `@api`
    # By stage id, plus `include`, `matches`, `total`, `gateway.wait` (before `total`) and `<stage>.<part>`, which
    # services report.
    timings_ms: dict[str, FiniteFloat]
    experiment: ExperimentRef | None = None  # where the pipeline that was asked for is one
