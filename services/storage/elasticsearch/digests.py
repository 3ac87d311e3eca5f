"""Computes the ContentDigest of an index, from what Elasticsearch sums over its documents, without reading them.

Each document holds its addend as parts of 24 bits. Elasticsearch sums in float64, which is exact below 2^53 and so for
2^29 documents.
"""

from collections.abc import Mapping

from services.chassis.errors import UpstreamFailed
from services.contracts.content_digest import ContentDigest, addend
from services.storage.elasticsearch.answers import SumsAnswer
from services.storage.elasticsearch.client import ElasticsearchClient

# The source goes without it, where it would take four times the space.
DIGEST = "digest"
_BITS = 24
_PARTS = tuple(f"part{place}" for place in range(11))


def digest_types() -> dict[str, object]:
    """Returns the mapping of the parts."""
    return {DIGEST: {"type": "object", "properties": {part: {"type": "integer", "index": False} for part in _PARTS}}}


def digest_parts(document_id: str, content_hash: str) -> dict[str, object]:
    """Returns the parts of a document's addend, the lowest bits first, as a field of what is indexed."""
    whole = addend(document_id, content_hash)
    return {DIGEST: {part: whole >> place * _BITS & (1 << _BITS) - 1 for place, part in enumerate(_PARTS)}}


def digest_of(sums: Mapping[str, float]) -> str:
    """Returns the digest of all documents, from the sum of each part."""
    return ContentDigest(sum(int(sums[part]) << place * _BITS for place, part in enumerate(_PARTS))).hexdigest()


async def summed_digest(client: ElasticsearchClient, index: str, generation: str) -> str:
    """Returns the digest of the documents visible to searches, in one request."""
    found = await client.answer(
        SumsAnswer.model_validate_json,
        "POST",
        f"/{index}/_search",
        {
            "size": 0,
            "aggs": {part: {"sum": {"field": f"{DIGEST}.{part}"}} for part in _PARTS},
            "track_total_hits": False,
        },
        {"allow_partial_search_results": "false", "filter_path": "_shards.failed,aggregations.*.value"},
        generation=generation,
    )
    if found.shards.failed:
        raise UpstreamFailed("A shard failed while all documents were being compared; try again.")
    return digest_of({part: total.value for part, total in found.aggregations.items()})
