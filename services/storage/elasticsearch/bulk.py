"""Writes many documents in one request.

Only operations that Elasticsearch rejected because its write queue was full are sent again.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from pydantic_core import to_json

from services.chassis.deadlines import Deadline, current_deadline
from services.chassis.errors import Overloaded, UpstreamFailed
from services.storage.elasticsearch.answers import BulkAnswer, BulkItem
from services.storage.elasticsearch.client import ElasticsearchClient
from services.storage.elasticsearch.errors import GONE, unknown_collection
from services.storage.elasticsearch.indices import Json

_RESULTS = "items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"
TOO_MANY_REQUESTS = 429
ATTEMPTS = 6
# Full jitter below 0.1, 0.2, … 1.6 s: about 1.5 s in all, enough for a full write queue to empty if it will.
FIRST_PAUSE_S = 0.1
# The `gc_deletes` of an index: how long the version of a deleted document is kept, longer than a write is in flight.
VERSIONS_KEPT = "10m"


@dataclass(frozen=True, slots=True)
class Operation:
    """The action line of one document, and its source line if it has one."""

    id: str
    lines: tuple[Json, ...]


def version_parameters(version: int | None) -> Json:
    """Returns what refuses an operation on a document of this version or a higher one; None refuses nothing."""
    return {} if version is None else {"version": version, "version_type": "external"}


def is_rejected(result: BulkItem) -> bool:
    """Returns whether an operation was rejected only because the write queue was full."""
    return result.status == TOO_MANY_REQUESTS


def error_summary(result: BulkItem) -> str:
    """Returns Elasticsearch's reason for a failed operation."""
    return "no reason given" if result.error is None else result.error.summary


def overtaken_ids(operations: Sequence[Operation], results: Sequence[BulkItem]) -> list[str]:
    """Returns the ids of the documents that already had a newer write."""
    pairs = zip(operations, results, strict=True)
    return [operation.id for operation, result in pairs if result.error is not None and result.error.is_overtaken]


def changed_documents(operations: Sequence[Operation], results: Sequence[BulkItem]) -> int:
    """Counts the documents that were written or removed. Raises Overloaded or UpstreamFailed if one failed."""
    late = overtaken_ids(operations, results)
    for operation, result in zip(operations, results, strict=True):
        if is_rejected(result):
            raise Overloaded(f"Elasticsearch has no room for all writes now; send them again: {error_summary(result)}")
        if result.error is not None and operation.id not in late:
            raise UpstreamFailed(f"{operation.id} could not be changed; send it again. {error_summary(result)}")
    return sum(result.error is None and result.status != 404 for result in results)


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


async def send_bulk(
    client: ElasticsearchClient, index: str, operations: Sequence[Operation], *, refresh: bool
) -> list[BulkItem]:
    """Sends operations to an index and returns their results, as `bulk` does. `index` is an alias."""
    params = {"refresh": "true" if refresh else "false", "filter_path": _RESULTS}

    async def send(part: Sequence[Operation]) -> Sequence[BulkItem]:
        lines = b"".join(to_json(line) + b"\n" for operation in part for line in operation.lines)
        answer = await client.answer(BulkAnswer.model_validate_json, "POST", f"/{index}/_bulk", lines, params)
        results = answer.results()
        if any(result.error is not None and result.error.type in GONE for result in results):
            raise unknown_collection(None)
        return results

    return await bulk(operations, send, current_deadline()) if operations else []
