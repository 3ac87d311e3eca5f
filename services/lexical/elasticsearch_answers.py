"""Models the parts of Elasticsearch's answers that only this service reads."""

from pydantic import Field

from services.contracts.documents import MetadataValue
from services.contracts.expansions import Expansions
from services.storage.elasticsearch.answers import ElasticsearchAnswer, Hits, SearchedAnswer


class Source(ElasticsearchAnswer):
    """The requested parts of a stored document."""

    title: str = ""
    text: str = ""
    metadata: dict[str, MetadataValue] = {}
    expansions: Expansions | None = None


class SourceHit(ElasticsearchAnswer):
    """A hit, and the requested parts of its document; without any where it has none of them."""

    sort: tuple[float, str]
    source: Source = Field(Source(), alias="_source")


class SourcesAnswer(SearchedAnswer):
    """The hits of a search, with documents."""

    hits: Hits[SourceHit] = Hits()


class SizeOnly(ElasticsearchAnswer):
    """The bytes of a stored document in an answer."""

    size: int


class IdHit(ElasticsearchAnswer):
    """A document's id, as the last part of the sort."""

    sort: tuple[float | str | None, ...]

    @property
    def id(self) -> str:
        """The document's id."""
        return str(self.sort[-1])


class IdsAnswer(SearchedAnswer):
    """The answer to a search for ids, sorted."""

    hits: Hits[IdHit] = Hits()


class Largest(ElasticsearchAnswer):
    """A maximum; None without any value."""

    value: float | None = None


class LargestAnswer(ElasticsearchAnswer):
    """The answer to a search for the largest size."""

    aggregations: dict[str, Largest]


class Bucket(ElasticsearchAnswer):
    """How many documents have a value (the key), or meet a query."""

    key: str = ""
    doc_count: int


class Buckets(ElasticsearchAnswer):
    """The counts of one aggregation. Absent when there is none, because of the filter_path."""

    buckets: tuple[Bucket, ...] = ()


class TotalHits(ElasticsearchAnswer):
    """How many documents meet a query."""

    value: int


class CountedHits(ElasticsearchAnswer):
    """Has the total where it was tracked."""

    total: TotalHits


class CountsAnswer(SearchedAnswer):
    """The answer to a search for counts, aggregations by name."""

    hits: CountedHits | None = None
    aggregations: dict[str, Buckets] = {}
