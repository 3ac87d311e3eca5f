"""Writes, deletes, lists and reads documents of an index, in parts of bounded size."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import Field

from services.chassis.errors import AnswerTooLarge, BadInput
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import (
    DeleteReport,
    Document,
    FetchedDocuments,
    IdPage,
    IdPageRequest,
    IndexReport,
    ItemError,
    MetadataValue,
)
from services.contracts.expansions import Expansions
from services.contracts.retrieval import BrowseRequest, RetrievalRequest
from services.contracts.scored import Ranking, paired
from services.lexical.document_collector import DocumentCollector, ReadOptions, beside_hits, wire_bytes
from services.lexical.elasticsearch_mapping import copy_preference
from services.lexical.presets import expect_declared, generated_queries, word_frequencies
from services.storage.elasticsearch.answers import ElasticsearchAnswer, FetchedAnswer, HashOnly, SearchedAnswer, at_path
from services.storage.elasticsearch.bulk import (
    Operation,
    changed_documents,
    error_summary,
    is_rejected,
    overtaken_ids,
    send_bulk,
    version_parameters,
)
from services.storage.elasticsearch.client import ElasticsearchClient, ElasticsearchClients
from services.storage.elasticsearch.indices import Json, digest_parts
from services.storage.elasticsearch.searching import ORDER, fetch_documents, search_all
from services.storage.fields import fields_of
from services.storage.write_order import overtaken


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

    hits: Annotated[tuple[SourceHit, ...], at_path("hits", "hits")] = ()


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

    hits: Annotated[tuple[IdHit, ...], at_path("hits", "hits")] = ()


class LargestAnswer(ElasticsearchAnswer):
    """The answer to a search for the largest size; None without any value."""

    value: Annotated[float | None, at_path("aggregations", "largest", "value")] = None


class Bucket(ElasticsearchAnswer):
    """How many documents have a value (the key), or meet a query."""

    key: str = ""
    doc_count: int


class Buckets(ElasticsearchAnswer):
    """The counts of one aggregation. Absent when there is none, because of the filter_path."""

    buckets: tuple[Bucket, ...] = ()


class CountsAnswer(SearchedAnswer):
    """The answer to a search for counts, aggregations by name; `total` where it was tracked."""

    total: Annotated[int | None, at_path("hits", "total", "value")] = None
    aggregations: dict[str, Buckets] = {}


# Before the last id of a page, so that no other text is taken for its `following`.
_FOLLOWING = "id:"
_BY_ID: Json = {"doc_id": "asc"}


async def index_documents(
    clients: ElasticsearchClients,
    index: str,
    documents: Sequence[Document],
    declaration: CollectionDeclaration,
    *,
    version: int | None,
    refresh: bool,
) -> IndexReport:
    """Writes new and changed documents, each with its own result. `index` is an alias.

    Writes those that are unchanged too where their version rises: the server has no other way to keep it.
    """
    contents = {document.id: document.content_hash for document in documents}
    held = await _held(clients.reading, index, list(contents))
    unchanged = {identity for identity, (content_hash, _) in held.items() if content_hash == contents[identity]}
    operations: list[Operation] = []
    errors: list[ItemError] = []
    for document in documents:
        if document.id in unchanged and (version is None or held[document.id][1] >= version):
            continue
        try:
            operations.append(_index_operation(document, declaration, version))
        except BadInput as refused:
            errors.append(ItemError(id=document.id, reason=refused.detail))
    results = await send_bulk(clients.writing, index, operations, refresh=refresh)
    late = overtaken_ids(operations, results)
    for operation, result in zip(operations, results, strict=True):
        if result.error is None:
            continue
        if operation.id in late:
            errors.append(overtaken(operation.id))
        elif is_rejected(result):
            reason = f"Elasticsearch has no room for it now; send it again: {error_summary(result)}"
            errors.append(ItemError(id=operation.id, reason=reason, retryable=True))
        else:
            errors.append(ItemError(id=operation.id, reason=error_summary(result)))
    unchanged -= {error.id for error in errors}
    return IndexReport(
        indexed=len(documents) - len(unchanged) - len(errors),
        unchanged=len(unchanged),
        errors=tuple(errors),
        latest_version=await _latest_version(clients.reading, index, late),
    )


async def delete_documents(
    clients: ElasticsearchClients, index: str, ids: Sequence[str], *, version: int | None, refresh: bool
) -> DeleteReport:
    """Deletes documents, except newer ones. Raises Overloaded or UpstreamFailed if one could not be deleted."""
    actions = {identity: {"_id": identity, **version_parameters(version)} for identity in ids}
    operations = [Operation(identity, ({"delete": action},)) for identity, action in actions.items()]
    results = await send_bulk(clients.writing, index, operations, refresh=refresh)
    deleted, late = changed_documents(operations, results), overtaken_ids(operations, results)
    return DeleteReport(
        deleted=deleted,
        errors=tuple(overtaken(identity) for identity in late),
        latest_version=await _latest_version(clients.reading, index, late),
    )


async def page_of_ids(
    client: ElasticsearchClient, index: str, generation: str, page: IdPageRequest, query: Json
) -> IdPage:
    """Returns a page of the ids of all documents of a query that are visible to searches, in ascending order."""
    if page.after is not None and not page.after.startswith(_FOLLOWING):
        raise BadInput("after: send the `following` of the page before.")
    after = {} if page.after is None else {"search_after": [page.after.removeprefix(_FOLLOWING)]}
    ids = await _sorted_ids(client, index, generation, {"query": query, "size": page.most, "sort": [_BY_ID], **after})
    return IdPage(ids=ids, following=f"{_FOLLOWING}{ids[-1]}" if len(ids) == page.most else None)


async def first_ids(
    client: ElasticsearchClient, index: str, generation: str, request: BrowseRequest, query: Json
) -> tuple[str, ...]:
    """Returns the ids of the first documents of a query that are visible to searches, in the order asked for."""
    sort: list[Json] = [_BY_ID]
    if request.sort is not None:
        sort = [{f"fields.{request.sort.field}": {"order": request.sort.order, "missing": "_last"}}, _BY_ID]
    return await _sorted_ids(client, index, generation, {"query": query, "size": request.top, "sort": sort})


async def _sorted_ids(client: ElasticsearchClient, index: str, generation: str, search: Json) -> tuple[str, ...]:
    """Returns the ids of a search whose last sort is the id."""
    body = {**search, "_source": False, "stored_fields": "_none_", "track_total_hits": False}
    params = {"preference": copy_preference("")}
    answer = await search_all(client, index, generation, body, "hits.hits.sort", params, IdsAnswer)
    return tuple(hit.id for hit in answer.hits)


async def _held(client: ElasticsearchClient, index: str, ids: list[str]) -> dict[str, tuple[str, int]]:
    """Returns the content hash of each stored document, and the version of its last write."""
    fetched = await fetch_documents(client, index, ids, ["hash"], FetchedAnswer[HashOnly].model_validate_json)
    return {stored.id: (stored.source.hash, stored.version) for stored in fetched if stored.source is not None}


async def _latest_version(client: ElasticsearchClient, index: str, ids: list[str]) -> int | None:
    """Returns the highest version among these documents; None if none exists."""
    held = await _held(client, index, ids) if ids else {}
    return max((version for _, version in held.values()), default=None)


def _index_operation(document: Document, declaration: CollectionDeclaration, version: int | None) -> Operation:
    fields = fields_of(document.metadata, declaration.metadata)
    expect_declared(document, declaration.expansions)
    content_hash = document.content_hash
    source: dict[str, object] = {
        "doc_id": document.id,
        "hash": content_hash,
        **digest_parts(document.id, content_hash),
        "size": wire_bytes(document),
        "title": document.title,
        "text": document.text,
        "metadata": document.metadata,
        "fields": {field: list(values) for field, values in fields.items()},
    }
    if document.expansions is not None:
        source["expansions"] = document.expansions.model_dump()
        source["doc2query"] = f"{document.title}\n{document.text}\n{generated_queries(document)}"
        source["deepct"] = " ".join(" ".join([word] * times) for word, times in word_frequencies(document))
    return Operation(
        document.id, ({"index": {"_id": document.id, "require_alias": True, **version_parameters(version)}}, source)
    )


PART_BYTES = 8_000_000


async def largest_document(client: ElasticsearchClient, index: str) -> int | None:
    """Reads the size of the largest document visible to searches; None without documents."""
    body = {"size": 0, "aggs": {"largest": {"max": {"field": "size"}}}, "track_total_hits": False}
    params = {"allow_partial_search_results": "false", "filter_path": "aggregations.largest.value"}
    answer = await client.answer(LargestAnswer.model_validate_json, "POST", f"/{index}/_search", body, params)
    value = answer.value
    return None if value is None else int(value)


async def get_documents(
    client: ElasticsearchClient, index: str, ids: Sequence[str], reading: ReadOptions, largest: int | None
) -> FetchedDocuments:
    """Reads documents by realtime get, also unrefreshed ones. `largest` bounds the size of each document, if known."""
    collector = DocumentCollector(ids, reading)
    if largest is not None and largest * len(collector.ids) <= PART_BYTES:
        sizes = dict.fromkeys(collector.ids, largest)
    else:
        parse = FetchedAnswer[SizeOnly].model_validate_json
        measured = await fetch_documents(client, index, collector.ids, ["size"], parse)
        sizes = {document.id: document.source.size for document in measured if document.source is not None}
    left = list(sizes)
    while left:
        count = _part_length([sizes[identity] for identity in left])
        part, left = left[:count], left[count:]
        fetched = await fetch_documents(client, index, part, reading.include, FetchedAnswer[Source].model_validate_json)
        for document in fetched:
            if document.source is not None:
                collector.add(Document(id=document.id, **dict(document.source)))
    return collector.answer()


async def ranked_documents(
    client: ElasticsearchClient,
    index: str,
    generation: str,
    query: Json,
    request: RetrievalRequest,
    params: Mapping[str, str],
) -> tuple[Ranking, tuple[Document, ...]]:
    """Returns the hits of a query and their documents, read in one request. Raises as `search_all`."""
    body = {"query": query, "size": request.top, "sort": ORDER, "_source": request.include, "track_total_hits": False}
    parts = "hits.hits.sort,hits.hits._source"
    source_hits = (await search_all(client, index, generation, body, parts, params, SourcesAnswer)).hits
    hits = paired((hit.sort[1], hit.sort[0]) for hit in source_hits)
    collector = DocumentCollector((hit.sort[1] for hit in source_hits), beside_hits(request.include))
    try:
        for hit in source_hits:
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
