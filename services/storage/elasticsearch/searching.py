"""Searches an index, reads documents by id, and translates filters into queries of Elasticsearch."""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import TypeVar

from services.chassis.deadlines import current_deadline
from services.chassis.errors import DeadlineExceeded, UpstreamFailed
from services.contracts.collections import FieldKind
from services.contracts.scored import Ranking, paired
from services.storage.elasticsearch.answers import Fetched, FetchedAnswer, HitsAnswer, SearchedAnswer, Stored
from services.storage.elasticsearch.client import ElasticsearchClient
from services.storage.elasticsearch.errors import GONE, RefusedByElasticsearch, elasticsearch_errors, unknown_collection
from services.storage.elasticsearch.indices import Json
from services.storage.fields import AllOf, AnyOf, Declared, Exists, NoneOf, OneOf, Requirement, Within

# Best first, equal scores by ascending id.
ORDER = ({"_score": "desc"}, {"doc_id": "asc"})
# Elasticsearch measures a search's timeout by a clock with steps of 200 ms (elastic/elasticsearch 11346): 10 ms across
# a step count as 200, and with 50 ms left one search in fifty ended early. So our side ends the call at the deadline,
# and Elasticsearch stops a search whose caller disconnects; its own timeout is only a bound for missed disconnects.
CLOCK_MS = 500
_PARAMS = {"allow_partial_search_results": "false", "request_cache": "false"}
_COMPLETE = "timed_out,_shards.failed"
# Dates are milliseconds since 1970: a filter compares the same values in every engine (services/storage/fields.py).
_TYPES: Mapping[FieldKind, str] = {"keyword": "keyword", "number": "double", "date": "double"}

_SORT = itemgetter("sort")
Searched = TypeVar("Searched", bound=SearchedAnswer)


async def ranked(
    client: ElasticsearchClient, index: str, generation: str, query: Json, top: int, params: Mapping[str, str]
) -> Ranking:
    """Returns ids and Elasticsearch's scores of the `top` best for `query` or `knn`, in one request.

    `params` are further ones of the URL. Raises as `search_all`.
    """
    body = {
        **query,
        "size": top,
        "sort": ORDER,
        "_source": False,
        # Not `_id` either: reading it decompresses the text of every hit: 25 ms for 1,000 in place of 6.
        "stored_fields": "_none_",
        "track_total_hits": False,
    }
    answer = await search_all(client, index, generation, body, "hits.hits.sort", params, HitsAnswer)
    return paired([(identity, score) for (score, identity) in map(_SORT, answer.hits)])


async def search_all(
    client: ElasticsearchClient,
    index: str,
    generation: str,
    body: Mapping[str, object],
    parts: str,
    params: Mapping[str, str],
    answer: type[Searched],
) -> Searched:
    """Returns these `parts` (a filter_path) of the answer to a search that saw all documents.

    Raises DeadlineExceeded or UpstreamFailed rather than return an answer that lacks documents.
    """
    body = {**body, "timeout": f"{current_deadline().remaining_ms + CLOCK_MS}ms"}
    params = {**_PARAMS, "filter_path": f"{_COMPLETE},{parts}", **params}
    with elasticsearch_errors(generation):
        try:
            content = await client.request("POST", f"/{index}/_search", body, params)
        except RefusedByElasticsearch as error:
            if not error.is_node_lost:
                raise
            # Elasticsearch asks another copy only before a shard's first answer; a new search does from the start.
            content = await client.request("POST", f"/{index}/_search", body, params)
        searched = answer.model_validate_json(content)
    if searched.timed_out:
        raise DeadlineExceeded("Elasticsearch did not see all documents in time; send a larger X-Deadline-Ms.")
    if searched.failed_shards:
        raise UpstreamFailed("A shard failed, so that documents would be missing from the answer; try again.")
    return searched


async def fetch_documents(
    client: ElasticsearchClient,
    index: str,
    ids: Sequence[str],
    parts: Sequence[str],
    parse: Callable[[bytes], FetchedAnswer[Stored]],
) -> tuple[Fetched[Stored], ...]:
    """Returns these parts of documents by realtime get, also of what is not refreshed, in the order of the ids.

    Raises UpstreamFailed for a document that could not be read: it must not count as missing.
    """
    params = {"_source_includes": ",".join(parts)}
    fetched = (await client.answer(parse, "POST", f"/{index}/_mget", {"ids": list(ids)}, params)).docs
    for document in fetched:
        if document.error is not None and document.error.type in GONE:
            raise unknown_collection(None)
        if document.error is not None:
            raise UpstreamFailed(f"A document cannot be read: {document.error.summary}")
    return fetched


def field_types(declared: Declared) -> dict[str, Json]:
    """Returns the mapping of the declared fields, below `fields`."""
    return {field: {"type": _TYPES[kind]} for field, kind in declared.items()}


def field_clause(requirement: Requirement) -> Json:
    """Returns the query of the documents that meet a requirement, in fields below `fields`."""
    match requirement:
        case OneOf(field, values):
            return {"terms": {f"fields.{field}": list(values)}}
        case Within(field, ranges):
            return _any([{"range": {f"fields.{field}": bounds}} for bounds in ranges])
        case Exists(field, present=True):
            return {"exists": {"field": f"fields.{field}"}}
        case Exists(field):
            return {"bool": {"must_not": [{"exists": {"field": f"fields.{field}"}}]}}
        case AllOf(parts):
            return {"bool": {"filter": [field_clause(part) for part in parts]}}
        case AnyOf(parts):
            return _any([field_clause(part) for part in parts])
        case NoneOf(part):
            return {"bool": {"must_not": [field_clause(part)]}}


def _any(clauses: list[Json]) -> Json:
    return {"bool": {"should": clauses, "minimum_should_match": 1}}
