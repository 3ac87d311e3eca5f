"""Which candidates a deadline leaves time for, and in which order they are scored. Pure: costs in, places out.

Costs and budgets are padded tokens of one thread. No candidate is scored before one of an earlier tier: whenever time
runs out, those that are scored are nearly the first ones.
"""

import heapq
import itertools
from collections.abc import Sequence

# Ranks at which a tier ends whatever the budget; beyond, every doubling.
ENDS = (20, 50, 100)
# A batch that a thread needs a quarter of its time for can be lost without losing much.
BATCHES_A_THREAD = 4


def reach(costs: Sequence[int], threads: int, budget: float) -> int:
    """How many of the first rows `threads` threads get done, each within `budget`, taken strictly in their order."""
    loads = [0.0] * threads
    for place, cost in enumerate(costs):
        load = loads[0] + cost
        if load > budget:
            return place
        heapq.heapreplace(loads, load)
    return len(costs)


def tiers(costs: Sequence[int], threads: int, budget: float) -> list[range]:
    """The places of `costs` in ranges that are scored one after the other.

    One range if there is time enough to be wrong by half. Otherwise they end where the budget is expected to, at every
    doubling of that, and at ENDS.
    """
    of = len(costs)
    if reach(costs, threads, budget / 2) == of:
        return [range(of)]
    expected = max(1, reach(costs, threads, budget))
    ends = {*ENDS, *_doublings(ENDS[-1], of), *_doublings(expected, of), of}
    edges = [0, *sorted(end for end in ends if end <= of)]
    return [range(start, end) for start, end in itertools.pairwise(edges)]


def batch_cap(most: int, budget: float) -> int:
    """Padded tokens of a batch, so that the one that the deadline cuts off is a small part of the work."""
    return max(1, int(min(most, budget / BATCHES_A_THREAD)))


def _doublings(start: int, of: int) -> list[int]:
    ends = [start]
    while ends[-1] < of:
        ends.append(ends[-1] * 2)
    return ends
