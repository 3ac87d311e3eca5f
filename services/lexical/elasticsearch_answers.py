"""What we read of Elasticsearch's answers, parsed at the border."""

from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from services.contracts.documents import MetadataValue

MOST_SAID = 300


class Answer(BaseModel):
    """Keys that we do not know are none of our business."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Shards(Answer):
    """How many shards could not do their part."""

    failed: int


class SortedHit(Answer):
    """A hit asked for with `query.ORDER` as its sort."""

    sort: tuple[float, str]


class Hits(Answer):
    """Absent when there is no hit, because of the filter_path."""

    hits: tuple[SortedHit, ...] = ()


class SearchAnswer(Answer):
    """Of a search; whole only when nothing timed out and no shard failed."""

    timed_out: bool
    shards: Shards = Field(alias="_shards")
    hits: Hits = Hits()


class Broadcast(Answer):
    """Of a refresh or a merge."""

    shards: Shards = Field(alias="_shards")


class Origin(Answer):
    """What a failure came from."""

    reason: str | None = None


class Cause(Answer):
    """Why something failed."""

    type: str
    reason: str | None = None
    caused_by: Origin | None = None

    @property
    def is_overtaken(self) -> bool:
        """A newer version of the document was written before."""
        return self.type == "version_conflict_engine_exception"

    @property
    def said(self) -> str:
        """In one line; the origin says more than what it led to, which may quote a whole document."""
        origin = None if self.caused_by is None else self.caused_by.reason
        return " ".join(f"{self.type}: {origin or self.reason or 'no reason given'}".split())[:MOST_SAID]


class BulkItem(Answer):
    """What became of one operation; 2xx is done, and 404 for a deletion means that nothing was there."""

    status: int
    error: Cause | None = None


class BulkAnswer(Answer):
    """One item an operation, in their order; each is a dictionary from the operation's name to its result."""

    items: tuple[dict[str, BulkItem], ...]

    def results(self) -> list[BulkItem]:
        """The items without the names."""
        return [result for item in self.items for result in item.values()]


class Source(Answer):
    """A document as it is stored, those parts of it that were asked for."""

    title: str = ""
    text: str = ""
    metadata: dict[str, MetadataValue] = {}


class SizeOnly(Answer):
    """Of a stored document, its bytes in an answer; None of one that was stored before they were kept."""

    size: int | None = None


class HashOnly(Answer):
    """Of a stored document, its content hash."""

    hash: str


class HashHit(Answer):
    """A document's content hash, and its id as the sort."""

    sort: tuple[str]
    source: HashOnly = Field(alias="_source")


class HashHits(Answer):
    """Absent when there is no hit, because of the filter_path."""

    hits: tuple[HashHit, ...] = ()


class HashPage(Answer):
    """Of a search for content hashes, sorted by id."""

    shards: Shards = Field(alias="_shards")
    hits: HashHits = HashHits()


Kept = TypeVar("Kept", Source, HashOnly, SizeOnly)


class Fetched(Answer, Generic[Kept]):
    """A document asked for by id."""

    id: str = Field(alias="_id")
    found: bool = False
    version: int = Field(0, alias="_version")
    source: Kept | None = Field(None, alias="_source")
    error: Cause | None = None


class FetchedAnswer(Answer, Generic[Kept]):
    """Of an mget, in the order asked for."""

    docs: tuple[Fetched[Kept], ...] = ()


class Mappings(Answer):
    """Of an index, whoever made it: `mapping.meta_of` reads what it keeps of itself."""

    meta: dict[str, object] | None = Field(None, alias="_meta")


class Described(Answer):
    """An index: what made it, and the names that it goes by."""

    mappings: Mappings = Mappings()
    aliases: dict[str, object] = {}


class DocumentCount(Answer):
    """Live documents that searches see."""

    count: int


class Primaries(Answer):
    """Statistics of the primary shards."""

    docs: Annotated[DocumentCount, Field(default_factory=lambda: DocumentCount(count=0))]


class IndexStatistics(Answer):
    """Of one index."""

    primaries: Primaries


class Statistics(Answer):
    """By index; absent when no index matches, because of the filter_path."""

    indices: dict[str, IndexStatistics] = {}


class ClusterHealth(Answer):
    """green, yellow or red."""

    status: str


class Node(Answer):
    """A server of the cluster."""

    version: str


class Nodes(Answer):
    """All of them, by an id that says nothing."""

    nodes: dict[str, Node]

    @property
    def version(self) -> str:
        """Theirs; during a rolling upgrade there are several."""
        return ", ".join(sorted({node.version for node in self.nodes.values()}))


class Largest(Answer):
    """A maximum; None over no value."""

    value: float | None = None


class LargestOf(Answer):
    """The one that was asked for."""

    largest: Largest


class LargestAnswer(Answer):
    """Of a search for the largest size."""

    aggregations: LargestOf


DESCRIBED = TypeAdapter(dict[str, Described])
