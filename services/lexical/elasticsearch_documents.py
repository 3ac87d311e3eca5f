"""Documents into and out of an index."""

from collections.abc import Sequence

from elasticsearch import AsyncElasticsearch

from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput, Overloaded, UpstreamFailed
from services.contracts.documents import Document, DocumentsAnswer, IndexReport, ItemError
from services.lexical.bulk import Operation, bulk, said, without_room
from services.lexical.elasticsearch_answers import BulkAnswer, BulkItem, Cause, FetchedAnswer, HashOnly, Source
from services.lexical.elasticsearch_client import in_time
from services.lexical.elasticsearch_errors import GONE, elasticsearch_errors, unknown
from services.vectorstore.fields import Declared, fields_of

_RESULTS = "items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"


async def index_documents(
    client: AsyncElasticsearch, index: str, documents: Sequence[Document], declared: Declared, *, refresh: bool
) -> IndexReport:
    """Writes those that are new or changed, each with its own result. `index` is an alias."""
    held = await _hashes(client, index, [document.id for document in documents])
    changed = [document for document in documents if held.get(document.id) != document.content_hash]
    operations: list[Operation] = []
    errors: list[ItemError] = []
    for document in changed:
        try:
            operations.append(_write(document, declared))
        except BadInput as refused:
            errors.append(ItemError(id=document.id, reason=refused.detail))
    results = await _bulk(client, index, operations, refresh=refresh)
    for operation, result in zip(operations, results, strict=True):
        if without_room(result):
            reason = f"Elasticsearch has no room for it now; send it again: {said(result)}"
            errors.append(ItemError(id=operation.id, reason=reason, retryable=True))
        elif result.error is not None:
            errors.append(ItemError(id=operation.id, reason=said(result)))
    indexed = sum(result.error is None for result in results)
    return IndexReport(indexed=indexed, unchanged=len(documents) - len(changed), errors=tuple(errors))


async def delete_documents(client: AsyncElasticsearch, index: str, ids: Sequence[str], *, refresh: bool) -> int:
    """Removes those that are there; how many. Raises Overloaded or UpstreamFailed when one of them was not removed."""
    operations = [Operation(one, ({"delete": {"_id": one}},)) for one in dict.fromkeys(ids)]
    results = await _bulk(client, index, operations, refresh=refresh)
    for operation, result in zip(operations, results, strict=True):
        if without_room(result):
            raise Overloaded(f"Elasticsearch has no room for all deletions now; delete them again: {said(result)}")
        if result.error is not None:
            raise UpstreamFailed(f"{operation.id} could not be deleted; delete it again. {said(result)}")
    return sum(result.status != 404 for result in results)


async def get_documents(client: AsyncElasticsearch, index: str, ids: Sequence[str]) -> DocumentsAnswer:
    """From the sources; sees what was just written."""
    wanted = list(dict.fromkeys(ids))
    with elasticsearch_errors():
        answer = await in_time(client).mget(index=index, ids=wanted, source_includes=["title", "text", "metadata"])
        fetched = FetchedAnswer[Source].model_validate(answer.body).docs
    _refuse_failed([one.error for one in fetched])
    documents: list[Document] = []
    missing: list[str] = []
    for one in fetched:
        if one.source is None:
            missing.append(one.id)
        else:
            source = one.source
            documents.append(Document(id=one.id, title=source.title, text=source.text, metadata=source.metadata))
    return DocumentsAnswer(documents=tuple(documents), missing=tuple(missing))


async def _hashes(client: AsyncElasticsearch, index: str, ids: list[str]) -> dict[str, str]:
    with elasticsearch_errors():
        answer = await in_time(client).mget(index=index, ids=ids, source_includes=["hash"])
        fetched = FetchedAnswer[HashOnly].model_validate(answer.body).docs
    _refuse_failed([one.error for one in fetched])
    return {one.id: one.source.hash for one in fetched if one.source is not None}


def _refuse_failed(errors: Sequence[Cause | None]) -> None:
    """A document that cannot be read is not a missing one."""
    for error in errors:
        if error is not None:
            raise unknown(None) if error.type == GONE else UpstreamFailed(f"A document cannot be read: {error.said}")


def _write(document: Document, declared: Declared) -> Operation:
    fields = fields_of(document.metadata, declared)
    source = {
        "doc_id": document.id,
        "hash": document.content_hash,
        "title": document.title,
        "text": document.text,
        "metadata": document.metadata,
        "fields": {field: list(values) for field, values in fields.items()},
    }
    return Operation(document.id, ({"index": {"_id": document.id, "require_alias": True}}, source))


async def _bulk(
    client: AsyncElasticsearch, index: str, operations: Sequence[Operation], *, refresh: bool
) -> list[BulkItem]:
    async def send(some: Sequence[Operation]) -> Sequence[BulkItem]:
        lines = [line for operation in some for line in operation.lines]
        with elasticsearch_errors():
            answer = await in_time(client).bulk(index=index, operations=lines, refresh=refresh, filter_path=_RESULTS)
            results = BulkAnswer.model_validate(answer.body).results()
        if any(result.error is not None and result.error.type == GONE for result in results):
            raise unknown(None)
        return results

    return await bulk(operations, send, current_deadline()) if operations else []
