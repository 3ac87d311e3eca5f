"""Writes and deletes documents of an index, and computes its digest. `elasticsearch_reading` reads documents.

Of a bulk request, only operations that Elasticsearch rejected because its write queue was full are sent again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from elasticsearch import AsyncElasticsearch

from services.chassis.deadlines import Deadline, current_deadline
from services.chassis.errors import BadInput, Overloaded, UpstreamFailed
from services.contracts.collections import CollectionDeclaration
from services.contracts.content_digest import ContentDigest
from services.contracts.documents import DeleteReport, Document, IdPage, IdPageRequest, IndexReport, ItemError
from services.lexical.document_collector import wire_bytes
from services.lexical.elasticsearch_answers import (
    BulkAnswer,
    BulkItem,
    FetchedAnswer,
    HashOnly,
    HashPage,
    IdsAnswer,
)
from services.lexical.elasticsearch_client import ElasticsearchClients, within_deadline
from services.lexical.elasticsearch_errors import GONE, elasticsearch_errors, raise_failed, unknown_collection
from services.lexical.elasticsearch_mapping import Json
from services.lexical.expanded_text import expect_declared, generated_queries, word_frequencies
from services.storage.fields import fields_of
from services.storage.write_order import overtaken

PAGE = 1_000  # hashes read in one request
_RESULTS = "items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
TOO_MANY_REQUESTS = 429
ATTEMPTS = 6
# Full jitter below 0.1, 0.2, … 1.6 s: about 1.5 s in all, enough for a full write queue to empty if it will.
FIRST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Operation:
    """The action line of one document, and its source line if it has one."""

    id: str
    lines: tuple[Json, ...]


def is_rejected(result: BulkItem) -> bool:
    """Returns whether an operation was rejected only because the write queue was full."""
    return result.status == TOO_MANY_REQUESTS


def error_summary(result: BulkItem) -> str:
    """Returns Elasticsearch's reason for a failed operation."""
    return "no reason given" if result.error is None else result.error.summary


Send = Callable[[Sequence[Operation]], Awaitable[Sequence[BulkItem]]]


async def bulk(operations: Sequence[Operation], send: Send, deadline: Deadline) -> list[BulkItem]:
    """Returns the result of each operation, in order. Retries items with 429 while attempts and time remain.

    Raises Overloaded if every operation was rejected: nothing was written.
    """
    results: dict[int, BulkItem] = {}
    waiting = list(range(len(operations)))
    for attempt in range(ATTEMPTS):
        answers = await send([operations[place] for place in waiting])
        results.update(zip(waiting, answers, strict=True))
        waiting = [place for place in waiting if is_rejected(results[place])]
        pause_s = random.uniform(0.0, FIRST_PAUSE_S * 2**attempt)
        if not waiting or attempt + 1 == ATTEMPTS or deadline.remaining_s <= 2 * pause_s:
            break
        await asyncio.sleep(pause_s)
    if waiting and len(waiting) == len(operations):
        reason = error_summary(results[waiting[0]])
        raise Overloaded(f"Elasticsearch has no room for these writes now ({reason}); send the batch again.")
    return [results[place] for place in range(len(operations))]


async def index_documents(
    clients: ElasticsearchClients,
    index: str,
    documents: Sequence[Document],
    declaration: CollectionDeclaration,
    *,
    version: int | None,
    refresh: bool,
) -> IndexReport:
    """Writes new and changed documents, each with its own result. `index` is an alias."""
    held = await _held(clients.reading, index, [document.id for document in documents])
    changed = [
        document for document in documents if document.id not in held or held[document.id].hash != document.content_hash
    ]
    operations: list[Operation] = []
    errors: list[ItemError] = []
    for document in changed:
        try:
            operations.append(_index_operation(document, declaration, version))
        except BadInput as refused:
            errors.append(ItemError(id=document.id, reason=refused.detail))
    results = await _bulk(clients.writing, index, operations, refresh=refresh)
    late = _overtaken_ids(operations, results)
    for operation, result in zip(operations, results, strict=True):
        if operation.id in late:
            errors.append(overtaken(operation.id))
        elif is_rejected(result):
            reason = f"Elasticsearch has no room for it now; send it again: {error_summary(result)}"
            errors.append(ItemError(id=operation.id, reason=reason, retryable=True))
        elif result.error is not None:
            errors.append(ItemError(id=operation.id, reason=error_summary(result)))
    return IndexReport(
        indexed=sum(result.error is None for result in results),
        unchanged=len(documents) - len(changed),
        errors=tuple(errors),
        latest_version=await _latest_version(clients.reading, index, late),
    )


async def delete_documents(
    clients: ElasticsearchClients, index: str, ids: Sequence[str], *, version: int | None, refresh: bool
) -> DeleteReport:
    """Deletes documents, except newer ones. Raises Overloaded or UpstreamFailed if one could not be deleted."""
    operations = [
        Operation(one, ({"delete": {"_id": one, **_version_parameters(version)}},)) for one in dict.fromkeys(ids)
    ]
    results = await _bulk(clients.writing, index, operations, refresh=refresh)
    late = _overtaken_ids(operations, results)
    for operation, result in zip(operations, results, strict=True):
        if is_rejected(result):
            raise Overloaded(
                f"Elasticsearch has no room for all deletions now; delete them again: {error_summary(result)}"
            )
        if result.error is not None and operation.id not in late:
            raise UpstreamFailed(f"{operation.id} could not be deleted; delete it again. {error_summary(result)}")
    return DeleteReport(
        deleted=sum(result.status != 404 and result.error is None for result in results),
        errors=tuple(overtaken(one) for one in late),
        latest_version=await _latest_version(clients.reading, index, late),
    )


async def digest_documents(client: AsyncElasticsearch, index: str) -> str:
    """Computes the ContentDigest of all documents visible to searches, page by page in order of id."""
    digest, after = ContentDigest(), None
    while True:
        with elasticsearch_errors():
            answer = await within_deadline(client).search(
                index=index,
                size=PAGE,
                sort=[{"doc_id": "asc"}],
                search_after=after,
                source_includes=["hash"],
                track_total_hits=False,
                allow_partial_search_results=False,
                request_cache=False,
                filter_path="_shards.failed,hits.hits.sort,hits.hits._source",
            )
            page = HashPage.model_validate(answer.body)
        if page.shards.failed:
            raise UpstreamFailed("A shard failed while all documents were being compared; try again.")
        digest.add((hit.sort[0], hit.source.hash) for hit in page.hits.hits)
        if len(page.hits.hits) < PAGE:
            return digest.hexdigest()
        after = list(page.hits.hits[-1].sort)


async def page_of_ids(client: AsyncElasticsearch, index: str, asked: IdPageRequest) -> IdPage:
    """Returns a page of the ids of all documents visible to searches, in ascending order."""
    with elasticsearch_errors():
        answer = await within_deadline(client).search(
            index=index,
            size=asked.most,
            sort=[{"doc_id": "asc"}],
            search_after=None if asked.after is None else [asked.after],
            source=False,
            track_total_hits=False,
            allow_partial_search_results=False,
            request_cache=False,
            filter_path="_shards.failed,hits.hits.sort",
        )
        page = IdsAnswer.model_validate(answer.body)
    if page.shards.failed:
        raise UpstreamFailed("A shard failed while the documents were being listed; try again.")
    ids = tuple(hit.sort[0] for hit in page.hits.hits)
    return IdPage(ids=ids, following=ids[-1] if len(ids) == asked.most else None)


@dataclass(frozen=True, slots=True)
class _StoredVersion:
    """The content hash of a stored document, and the version of its last write."""

    hash: str
    version: int


async def _held(client: AsyncElasticsearch, index: str, ids: list[str]) -> dict[str, _StoredVersion]:
    with elasticsearch_errors():
        answer = await within_deadline(client).mget(index=index, ids=ids, source_includes=["hash"])
        fetched = FetchedAnswer[HashOnly].model_validate(answer.body).docs
    raise_failed([one.error for one in fetched])
    return {one.id: _StoredVersion(one.source.hash, one.version) for one in fetched if one.source is not None}


def _overtaken_ids(operations: Sequence[Operation], results: Sequence[BulkItem]) -> list[str]:
    """Returns the ids that already had a newer write."""
    return [
        operation.id
        for operation, result in zip(operations, results, strict=True)
        if result.error is not None and result.error.is_overtaken
    ]


async def _latest_version(client: AsyncElasticsearch, index: str, ids: list[str]) -> int | None:
    """Returns the highest version among these documents; None if none exists."""
    held = await _held(client, index, ids) if ids else {}
    return max((one.version for one in held.values()), default=None)


def _version_parameters(version: int | None) -> Json:
    return {} if version is None else {"version": version, "version_type": "external"}


def _index_operation(document: Document, declaration: CollectionDeclaration, version: int | None) -> Operation:
    fields = fields_of(document.metadata, declaration.metadata)
    expect_declared(document, declaration.expansions)
    source: dict[str, object] = {
        "doc_id": document.id,
        "hash": document.content_hash,
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
        document.id, ({"index": {"_id": document.id, "require_alias": True, **_version_parameters(version)}}, source)
    )


async def _bulk(
    client: AsyncElasticsearch, index: str, operations: Sequence[Operation], *, refresh: bool
) -> list[BulkItem]:
    async def send(some: Sequence[Operation]) -> Sequence[BulkItem]:
        lines = [line for operation in some for line in operation.lines]
        with elasticsearch_errors(writes=True):
            answer = await within_deadline(client).bulk(
                index=index, operations=lines, refresh=refresh, filter_path=_RESULTS
            )
            results = BulkAnswer.model_validate(answer.body).results()
        if any(result.error is not None and result.error.type == GONE for result in results):
            raise unknown_collection(None)
        return results

    return await bulk(operations, send, current_deadline()) if operations else []
