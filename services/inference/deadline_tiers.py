"""Decides which candidates a deadline leaves time for, and in which order they are scored. Pure: costs in, places out.

Costs and budgets are padded tokens of one thread. Every candidate of a tier is scored before any of the next tier, so
that at a deadline the scored candidates are nearly the first ones of the ranking.
"""

import heapq
import itertools
from collections.abc import Sequence

# Ranks at which a tier ends whatever the budget; beyond the last, at every doubling.
TIER_ENDS = (20, 50, 100)
# The deadline may cut off one batch a thread: at a quarter of the thread's budget the loss is small.
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
