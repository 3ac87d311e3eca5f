"""Forms the micro-batches of one request: rows sorted by length, padded tokens capped. Pure: lengths in, places out.

Sorted and capped at 512 padded tokens, 100 mixed candidates cost a fifth of the CPU of one padded batch, and the cap
alone bounds the memory of a call. A batch never mixes requests, so that no result depends on concurrent requests.
"""

from collections.abc import Sequence
from typing import TypeVar

MAX_PADDED_TOKENS = 512
# Each call has a fixed cost, so a batch is not made smaller than this only to give every thread one.
MIN_SHARED_CAP = 128
T = TypeVar("T")

# The places, in the request, of the rows of one batch.
Batch = tuple[int, ...]


def form_batches(
    lengths: Sequence[int], max_padded_tokens: int = MAX_PADDED_TOKENS, *, batchable: bool = True
) -> list[Batch]:
    """Puts every place of `lengths` into one batch; rows times longest row stays within the cap, except for one row.

    Longest first, so that the last batches, which decide when all threads are done, are the cheap ones.
    A model that is not `batchable` gets one row a batch, without padding.
    """
    order = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    batches: list[Batch] = []
    start = 0
    while start < len(order):
        longest = max(1, lengths[order[start]])
        rows = max(1, max_padded_tokens // longest) if batchable else 1
        batches.append(tuple(order[start : start + rows]))
        start += rows
    return batches


def cap_for_all_threads(lengths: Sequence[int], threads: int, max_padded_tokens: int) -> int:
    """Lowers the cap for a small request, so that its batches occupy every thread instead of one."""
    return min(max_padded_tokens, max(MIN_SHARED_CAP, -(-sum(lengths) // threads)))


def form_batches_by_tier(
    lengths: Sequence[int], tiers: Sequence[range], max_padded_tokens: int, *, batchable: bool = True
) -> list[Batch]:
    """Forms batches as `form_batches` does, but separately for each tier; the tiers cover all places, in order.

    Within a tier, batches are ordered by their best rank, so that a deadline cuts off the lowest ranks.
    """
    batches: list[Batch] = []
    for tier in tiers:
        formed = form_batches([lengths[place] for place in tier], max_padded_tokens, batchable=batchable)
        batches += sorted((tuple(tier.start + place for place in batch) for batch in formed), key=min)
    return batches


def in_request_order(batches: Sequence[Batch], results: Sequence[Sequence[T]]) -> list[T]:
    """Returns the results of all batches in the order of the request; raises ValueError when one is missing."""
    by_place = {
        place: result
        for batch, of_batch in zip(batches, results, strict=True)
        for place, result in zip(batch, of_batch, strict=True)
    }
    return [by_place[place] for place in range(len(by_place))]
