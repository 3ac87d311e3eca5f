"""Models the parts of Elasticsearch's answers that our services read."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

MOST_SUMMARY = 300


class ElasticsearchAnswer(BaseModel):
    """An answer of Elasticsearch. Ignores unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Shards(ElasticsearchAnswer):
    """The number of shards that failed."""

    failed: int


class SortedHit(TypedDict):
    """A hit of a search sorted by `searching.ORDER`: score and document id. No model: an answer has hundreds."""

    sort: tuple[float, str]


Hit = TypeVar("Hit")


class Hits(ElasticsearchAnswer, Generic[Hit]):
    """Absent when there is no hit, because of the filter_path."""

    hits: tuple[Hit, ...] = ()


class SearchedAnswer(ElasticsearchAnswer):
    """The answer to a search. Complete only if nothing timed out and no shard failed."""

    timed_out: bool
    shards: Shards = Field(alias="_shards")


class HitsAnswer(SearchedAnswer):
    """The hits of a search."""

    hits: Hits[SortedHit] = Hits()


class BroadcastAnswer(ElasticsearchAnswer):
    """The answer to a refresh or a merge."""

    shards: Shards = Field(alias="_shards")


class CausedBy(ElasticsearchAnswer):
    """The origin of a failure."""

    reason: str | None = None


class Cause(ElasticsearchAnswer):
    """The cause of a failure."""

    type: str
    reason: str | None = None
    caused_by: CausedBy | None = None

    @property
    def is_overtaken(self) -> bool:
        """Whether a newer version of the document had been written."""
        return self.type == "version_conflict_engine_exception"

    @property
    def summary(self) -> str:
        """The cause in one line. Prefers the origin: what it led to may quote a whole document."""
        origin = None if self.caused_by is None else self.caused_by.reason
        return " ".join(f"{self.type}: {origin or self.reason or 'no reason given'}".split())[:MOST_SUMMARY]


class BulkItem(ElasticsearchAnswer):
    """The result of one operation. 2xx is success; 404 of a deletion means that the document did not exist."""

    status: int
    error: Cause | None = None


class BulkAnswer(ElasticsearchAnswer):
    """The answer to a bulk request: one item for each operation, mapping the operation's name to its result."""

    items: tuple[dict[str, BulkItem], ...]

    def results(self) -> list[BulkItem]:
        """Returns the results without the names."""
        return [result for item in self.items for result in item.values()]


class HashOnly(ElasticsearchAnswer):
    """The content hash of a stored document."""

    hash: str


class Sum(ElasticsearchAnswer):
    """A sum over all documents."""

    value: float


class SumsAnswer(ElasticsearchAnswer):
    """The answer to a search for sums, by name."""

    shards: Shards = Field(alias="_shards")
    aggregations: dict[str, Sum]


Stored = TypeVar("Stored", bound=ElasticsearchAnswer)


class Fetched(ElasticsearchAnswer, Generic[Stored]):
    """A document requested by id."""

    id: str = Field(alias="_id")
    found: bool = False
    version: int = Field(0, alias="_version")
    source: Stored | None = Field(None, alias="_source")
    error: Cause | None = None


class FetchedAnswer(ElasticsearchAnswer, Generic[Stored]):
    """The answer to an mget, in the order of the ids."""

    docs: tuple[Fetched[Stored], ...] = ()


class Mappings(ElasticsearchAnswer):
    """The `_meta` of any index; `indices` parses that of ours."""

    meta: dict[str, object] | None = Field(None, alias="_meta")


class IndexDescription(ElasticsearchAnswer):
    """An index: its `_meta` and its aliases."""

    mappings: Mappings = Mappings()
    aliases: dict[str, object] = {}


class DocumentCount(ElasticsearchAnswer):
    """The number of documents visible to searches."""

    count: int


class StoreSize(ElasticsearchAnswer):
    """The bytes of an index on the disk."""

    size_in_bytes: int


class Primaries(ElasticsearchAnswer):
    """Statistics of the primary shards."""

    docs: Annotated[DocumentCount, Field(default_factory=lambda: DocumentCount(count=0))]
    store: StoreSize | None = None


class IndexStatistics(ElasticsearchAnswer):
    """Statistics of one index."""

    primaries: Primaries


class Statistics(ElasticsearchAnswer):
    """Statistics by index. Absent if no index matches, because of the filter_path."""

    indices: dict[str, IndexStatistics] = {}


class ClusterHealth(ElasticsearchAnswer):
    """The health of the cluster: green, yellow or red."""

    status: str


class Node(ElasticsearchAnswer):
    """A server of the cluster."""

    version: str


class Nodes(ElasticsearchAnswer):
    """The servers of the cluster, by Elasticsearch's id."""

    nodes: dict[str, Node]

    @property
    def version(self) -> str:
        """Their version; several during a rolling upgrade."""
        return ", ".join(sorted({node.version for node in self.nodes.values()}))


INDEX_DESCRIPTIONS = TypeAdapter(dict[str, IndexDescription])
