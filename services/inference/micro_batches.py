"""Forms the micro-batches of one request, and decides which rows a deadline leaves time for. Pure.

Rows are sorted by length, and padded tokens capped: sorted and capped at 512, 100 mixed candidates cost a fifth of the
CPU of one padded batch, and the cap alone bounds the memory of a call. A batch never mixes requests, so that no result
depends on concurrent requests. Costs and budgets are padded tokens of one thread. Every candidate of a tier is scored
before any of the next tier, so that at a deadline the scored ones are nearly the first ones of the ranking.
"""

import heapq
import itertools
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
    A model that is not `batchable` gets one row per batch, without padding.
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


# Ranks at which a tier ends whatever the budget; beyond the last, at every doubling.
TIER_ENDS = (20, 50, 100)
# The deadline may cut off one batch per thread: at a quarter of the thread's budget the loss is small.
BATCHES_PER_THREAD = 4


def count_reachable(costs: Sequence[int], threads: int, budget: float) -> int:
    """Returns how many of the first rows `threads` threads finish, each within `budget`, strictly in their order."""
    loads = [0.0] * threads
    for place, cost in enumerate(costs):
        load = loads[0] + cost
        if load > budget:
            return place
        heapq.heapreplace(loads, load)
    return len(costs)


def split_into_tiers(row_costs: Sequence[int], sizes: Sequence[int], threads: int, budget: float) -> list[range]:
    """Splits the rows of candidates, each of as many consecutive ones as `sizes` says, into ranges that are scored one
    after the other. No candidate is in two of them.

    Returns one range if half the budget suffices for all rows. Otherwise a range ends where the budget is expected to
    end, at every doubling of that place, and at TIER_ENDS.
    """
    rows = [0, *itertools.accumulate(sizes)]
    costs = [sum(row_costs[start:end]) for start, end in itertools.pairwise(rows)]
    total = len(costs)
    if count_reachable(costs, threads, budget / 2) == total:
        return [range(rows[-1])]
    expected = max(1, count_reachable(costs, threads, budget))
    ends = {*TIER_ENDS, *_doublings(TIER_ENDS[-1], total), *_doublings(expected, total), total}
    edges = [0, *sorted(end for end in ends if end <= total)]
    return [range(rows[start], rows[end]) for start, end in itertools.pairwise(edges)]


def batch_cap(max_padded_tokens: int, budget: float) -> int:
    """Returns the padded tokens of a batch, at most a quarter of `budget`, so that a deadline wastes little work."""
    return max(1, int(min(max_padded_tokens, budget / BATCHES_PER_THREAD)))


def _doublings(start: int, total: int) -> list[int]:
    ends = [start]
    while ends[-1] < total:
        ends.append(ends[-1] * 2)
    return ends
