"""Models the parts of Elasticsearch's answers that our services read."""

from typing import Annotated, Any, Generic, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, TypeAdapter
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

MOST_SUMMARY = 300


def at_path(*path: str) -> Any:
    """Returns the place of a field in an answer."""
    return Field(validation_alias=AliasPath(*path))


FailedShards = Annotated[int, at_path("_shards", "failed")]


class ElasticsearchAnswer(BaseModel):
    """An answer of Elasticsearch. Ignores unknown keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class SortedHit(TypedDict):
    """A hit of a search sorted by `searching.ORDER`: score and document id. No model: an answer has hundreds."""

    sort: tuple[float, str]


class SearchedAnswer(ElasticsearchAnswer):
    """The answer to a search. Complete only if nothing timed out and no shard failed."""

    timed_out: bool
    failed_shards: FailedShards


class HitsAnswer(SearchedAnswer):
    """The hits of a search; without any where the filter_path finds none."""

    hits: Annotated[tuple[SortedHit, ...], at_path("hits", "hits")] = ()


class BroadcastAnswer(ElasticsearchAnswer):
    """The answer to a refresh or a merge."""

    failed_shards: FailedShards


class Cause(ElasticsearchAnswer):
    """The cause of a failure."""

    type: str
    reason: str | None = None
    origin: Annotated[str | None, at_path("caused_by", "reason")] = None

    @property
    def is_overtaken(self) -> bool:
        """Whether a newer version of the document had been written."""
        return self.type == "version_conflict_engine_exception"

    @property
    def summary(self) -> str:
        """The cause in one line. Prefers the origin: what it led to may quote a whole document."""
        return " ".join(f"{self.type}: {self.origin or self.reason or 'no reason given'}".split())[:MOST_SUMMARY]


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

    failed_shards: FailedShards
    aggregations: dict[str, Sum]


Stored = TypeVar("Stored", bound=ElasticsearchAnswer)


class Fetched(ElasticsearchAnswer, Generic[Stored]):
    """A document requested by id."""

    id: str = Field(alias="_id")
    version: int = Field(0, alias="_version")
    source: Stored | None = Field(None, alias="_source")
    error: Cause | None = None


class FetchedAnswer(ElasticsearchAnswer, Generic[Stored]):
    """The answer to an mget, in the order of the ids."""

    docs: tuple[Fetched[Stored], ...] = ()


class IndexDescription(ElasticsearchAnswer):
    """An index: the `_meta` of any (`indices` parses that of ours), and its aliases."""

    meta: Annotated[dict[str, object] | None, at_path("mappings", "_meta")] = None
    aliases: dict[str, object] = {}


class IndexSize(ElasticsearchAnswer):
    """Documents visible to searches, and bytes on the disk of one copy; None where the server does not report it."""

    documents: Annotated[int, at_path("primaries", "docs", "count")] = 0
    bytes: Annotated[int | None, at_path("primaries", "store", "size_in_bytes")] = None


class Statistics(ElasticsearchAnswer):
    """Sizes by index. Absent if no index matches, because of the filter_path."""

    indices: dict[str, IndexSize] = {}


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
