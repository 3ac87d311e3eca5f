"""Documents out of an index, in parts of a bounded size: the server and we would otherwise hold them all at once."""

from collections.abc import Sequence

from elasticsearch import AsyncElasticsearch

from services.contracts.documents import Document, FetchedDocuments
from services.lexical.document_collector import Collected, Reading, wire_bytes
from services.lexical.elasticsearch_answers import FetchedAnswer, LargestAnswer, SizeOnly, Source
from services.lexical.elasticsearch_client import in_time
from services.lexical.elasticsearch_errors import elasticsearch_errors, refuse_failed

PART_BYTES = 8_000_000
# Of documents that were stored before their size was: 16 make a part until some of them have been seen.
ASSUMED_BYTES = PART_BYTES // 16


async def largest_document(client: AsyncElasticsearch, index: str) -> int | None:
    """The size of the largest document that searches see; None when none of them has a size."""
    with elasticsearch_errors():
        answer = await in_time(client).search(
            index=index,
            size=0,
            aggs={"largest": {"max": {"field": "size"}}},
            track_total_hits=False,
            allow_partial_search_results=False,
            filter_path="aggregations.largest.value",
        )
        value = LargestAnswer.model_validate(answer.body).aggregations.largest.value
    return None if value is None else int(value)


async def get_documents(
    client: AsyncElasticsearch, index: str, ids: Sequence[str], reading: Reading, largest: int | None
) -> FetchedDocuments:
    """From the sources; sees what was just written. `largest` bounds the size of each document, where that is known."""
    collected = Collected(tuple(ids), reading.cut_to_bytes)
    if largest is not None and largest * len(collected.ids) <= PART_BYTES:
        sizes: dict[str, int | None] = dict.fromkeys(collected.ids, largest)
    else:
        sizes = await _sizes(client, index, collected.ids)
    left, assumed = list(sizes), ASSUMED_BYTES
    while left:
        count = _fitting([assumed if size is None else size for size in map(sizes.get, left)])
        part, left = left[:count], left[count:]
        with elasticsearch_errors():
            answer = await in_time(client).mget(index=index, ids=part, source_includes=list(reading.include))
            fetched = FetchedAnswer[Source].model_validate(answer.body).docs
        refuse_failed(one.error for one in fetched)
        for one in fetched:
            if one.source is not None:
                source = one.source
                document = Document(id=one.id, title=source.title, text=source.text, metadata=source.metadata)
                collected.add(document)
                if sizes[one.id] is None:
                    seen = 4 * wire_bytes(document)  # the next ones may be longer, but hardly many of them
                    assumed = seen if one.id == part[0] else max(assumed, seen)
    return collected.answer()


def _fitting(sizes: Sequence[int]) -> int:
    """How many of the first ones make a part: one at least."""
    total = 0
    for count, size in enumerate(sizes):
        total += size
        if total > PART_BYTES and count:
            return count
    return len(sizes)


async def _sizes(client: AsyncElasticsearch, index: str, ids: Sequence[str]) -> dict[str, int | None]:
    with elasticsearch_errors():
        answer = await in_time(client).mget(index=index, ids=list(ids), source_includes=["size"])
        fetched = FetchedAnswer[SizeOnly].model_validate(answer.body).docs
    refuse_failed(one.error for one in fetched)
    return {one.id: one.source.size for one in fetched if one.source is not None}
