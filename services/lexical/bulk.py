"""Bulk operations: what each became, and only what was rejected for lack of room sent again."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from services.chassis.deadlines import Deadline
from services.lexical.elasticsearch_answers import BulkItem
from services.lexical.mapping import Json

TOO_MANY_REQUESTS = 429
ATTEMPTS = 6
# Full jitter below 0.1, 0.2, … 1.6 s: about 1.5 s in all, in which a full write queue empties or does not.
FIRST_PAUSE_S = 0.1


@dataclass(frozen=True, slots=True)
class Operation:
    """One action line, and the source line where there is one."""

    id: str
    lines: tuple[Json, ...]


Send = Callable[[Sequence[Operation]], Awaitable[Sequence[BulkItem]]]


async def bulk(operations: Sequence[Operation], send: Send, deadline: Deadline) -> list[BulkItem]:
    """The result of each operation, in their order. Items with 429 are retried while attempts and time remain."""
    results: dict[int, BulkItem] = {}
    waiting = list(range(len(operations)))
    for attempt in range(ATTEMPTS):
        answers = await send([operations[place] for place in waiting])
        results.update(zip(waiting, answers, strict=True))
        waiting = [place for place in waiting if results[place].status == TOO_MANY_REQUESTS]
        pause_s = random.uniform(0.0, FIRST_PAUSE_S * 2**attempt)
        if not waiting or attempt + 1 == ATTEMPTS or deadline.remaining_s <= 2 * pause_s:
            break
        await asyncio.sleep(pause_s)
    return [results[place] for place in range(len(operations))]
