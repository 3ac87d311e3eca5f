"""Bulk operations: what each became, and only what was rejected for lack of room sent again."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from services.chassis.deadlines import Deadline
from services.chassis.errors import Overloaded
from services.lexical.elasticsearch_answers import BulkItem
from services.lexical.elasticsearch_mapping import Json

TOO_MANY_REQUESTS = 429
ATTEMPTS = 6
# Full jitter below 0.1, 0.2, … 1.6 s: about 1.5 s in all, in which a full write queue empties or does not.
FIRST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Operation:
    """One action line, and the source line where there is one."""

    id: str
    lines: tuple[Json, ...]


def without_room(result: BulkItem) -> bool:
    """Whether this was refused only because there was no room for it just then."""
    return result.status == TOO_MANY_REQUESTS


def said(result: BulkItem) -> str:
    """What Elasticsearch said of one that it did not take."""
    return "no reason given" if result.error is None else result.error.said


Send = Callable[[Sequence[Operation]], Awaitable[Sequence[BulkItem]]]


async def bulk(operations: Sequence[Operation], send: Send, deadline: Deadline) -> list[BulkItem]:
    """The result of each operation, in their order. Items with 429 are retried while attempts and time remain.

    Raises Overloaded when there was no room for any of them: nothing was done, and it is time to wait.
    """
    results: dict[int, BulkItem] = {}
    waiting = list(range(len(operations)))
    for attempt in range(ATTEMPTS):
        answers = await send([operations[place] for place in waiting])
        results.update(zip(waiting, answers, strict=True))
        waiting = [place for place in waiting if without_room(results[place])]
        pause_s = random.uniform(0.0, FIRST_PAUSE_S * 2**attempt)
        if not waiting or attempt + 1 == ATTEMPTS or deadline.remaining_s <= 2 * pause_s:
            break
        await asyncio.sleep(pause_s)
    if waiting and len(waiting) == len(operations):
        raise Overloaded(
            f"Elasticsearch has no room for these writes now ({said(results[waiting[0]])}); send the batch again."
        )
    return [results[place] for place in range(len(operations))]
