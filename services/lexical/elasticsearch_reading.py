"""Reads documents of an index in parts of bounded size, which bounds memory in the server and here."""

from collections.abc import Mapping, Sequence

from services.chassis.errors import AnswerTooLarge
from services.contracts.documents import Document, FetchedDocuments
from services.contracts.retrieval import RetrievalRequest
from services.contracts.scored import Ranking, paired
from services.lexical.document_collector import DocumentCollector, ReadOptions, beside_hits
from services.lexical.elasticsearch_answers import LargestAnswer, SizeOnly, Source, SourcesAnswer
from services.storage.elasticsearch.answers import FetchedAnswer
from services.storage.elasticsearch.client import ElasticsearchClient
from services.storage.elasticsearch.indices import Json
from services.storage.elasticsearch.searching import ORDER, fetch_documents, search_all

PART_BYTES = 8_000_000


async def largest_document(client: ElasticsearchClient, index: str) -> int | None:
    """Reads the size of the largest document visible to searches; None without documents."""
    body = {"size": 0, "aggs": {"largest": {"max": {"field": "size"}}}, "track_total_hits": False}
    params = {"allow_partial_search_results": "false", "filter_path": "aggregations.largest.value"}
    answer = await client.answer(LargestAnswer.model_validate_json, "POST", f"/{index}/_search", body, params)
    value = answer.aggregations["largest"].value
    return None if value is None else int(value)


async def get_documents(
    client: ElasticsearchClient, index: str, ids: Sequence[str], reading: ReadOptions, largest: int | None
) -> FetchedDocuments:
    """Reads documents by realtime get, also unrefreshed ones. `largest` bounds the size of each document, if known."""
    collector = DocumentCollector(ids, reading)
    if largest is not None and largest * len(collector.ids) <= PART_BYTES:
        sizes = dict.fromkeys(collector.ids, largest)
    else:
        sizes = await _sizes(client, index, collector.ids)
    left = list(sizes)
    while left:
        count = _part_length([sizes[one] for one in left])
        part, left = left[:count], left[count:]
        fetched = await fetch_documents(client, index, part, reading.include, FetchedAnswer[Source].model_validate_json)
        for one in fetched:
            if one.source is not None:
                collector.add(Document(id=one.id, **dict(one.source)))
    return collector.answer()


async def ranked_documents(
    client: ElasticsearchClient,
    index: str,
    generation: str,
    query: Json,
    asked: RetrievalRequest,
    params: Mapping[str, str],
) -> tuple[Ranking, tuple[Document, ...]]:
    """Returns the hits of a query and their documents, read in one request. Raises as `search_all`."""
    body = {"query": query, "size": asked.top, "sort": ORDER, "_source": asked.include, "track_total_hits": False}
    parts = "hits.hits.sort,hits.hits._source"
    found = (await search_all(client, index, generation, body, parts, params, SourcesAnswer)).hits.hits
    hits = paired((hit.sort[1], hit.sort[0]) for hit in found)
    collector = DocumentCollector((hit.sort[1] for hit in found), beside_hits(asked.include))
    try:
        for hit in found:
            collector.add(Document(id=hit.sort[1], **dict(hit.source)))
    except AnswerTooLarge:
        return hits, ()
    return hits, collector.answer().documents


def _part_length(sizes: Sequence[int]) -> int:
    """Returns how many documents make the next part, at least one."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > PART_BYTES and count:
            return count
    return len(sizes)


async def _sizes(client: ElasticsearchClient, index: str, ids: Sequence[str]) -> dict[str, int]:
    fetched = await fetch_documents(client, index, ids, ["size"], FetchedAnswer[SizeOnly].model_validate_json)
    return {one.id: one.source.size for one in fetched if one.source is not None}
