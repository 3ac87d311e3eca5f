"""Counts the documents of a query in Elasticsearch, in one request."""

from collections.abc import Mapping, Sequence

from elasticsearch import AsyncElasticsearch

from services.contracts.matches import FacetCounts, Matches
from services.lexical.elasticsearch_answers import Buckets, CountsAnswer
from services.lexical.facets import CheckedFacet
from services.storage.elasticsearch.indices import Json
from services.storage.elasticsearch.searching import field_clause, search_all

_PARTS = "hits.total.value,aggregations.*.buckets.key,aggregations.*.buckets.doc_count"
# Every value of a shard: a value that is not among the first of one shard may be among the first of all.
ALL_VALUES = 2**31 - 1


async def count_matches(
    client: AsyncElasticsearch,
    index: str,
    generation: str,
    query: Json,
    facets: Sequence[CheckedFacet],
    params: Mapping[str, str],
    *,
    total: bool,
    several_shards: bool,
) -> Matches:
    """Returns the exact counts. `params` are further ones of the URL. Raises as `search_all`."""
    body = {
        "query": query,
        "size": 0,
        "track_total_hits": total,
        "aggs": {facet.asked.field: _aggregation(facet, several_shards) for facet in facets},
    }
    found = await search_all(client, index, generation, body, _PARTS, params, CountsAnswer)
    counts = {one.asked.field: _counts(one, found.aggregations.get(one.asked.field, Buckets())) for one in facets}
    return Matches(total=found.hits.total.value if found.hits is not None else None, facets=counts or None)


def _aggregation(facet: CheckedFacet, several_shards: bool) -> Json:
    if facet.ranges:
        return {"filters": {"filters": [field_clause(one) for one in facet.ranges]}}
    return {
        "terms": {
            "field": f"fields.{facet.asked.field}",
            "size": facet.asked.top,
            "order": [{"_count": "desc"}, {"_key": "asc"}],
            **({"shard_size": ALL_VALUES} if several_shards else {}),
        }
    }


def _counts(facet: CheckedFacet, found: Buckets) -> FacetCounts:
    if facet.ranges:
        return facet.of_ranges([one.doc_count for one in found.buckets])
    return facet.of_values([(one.key, one.doc_count) for one in found.buckets])
