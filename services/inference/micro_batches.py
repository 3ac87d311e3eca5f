"""Forms batches of one request: sorted by length, capped by padded tokens. Pure: lengths in, places out.

Sorted and capped at 512 padded tokens, 100 mixed candidates cost a fifth of the CPU of one padded batch, and the cap
alone bounds the memory of a call. Batches never mix requests, so a result cannot depend on what
else is in flight.
"""

from collections.abc import Sequence
from typing import TypeVar

MAX_PADDED_TOKENS = 512
# Batches are not made smaller than this for the sake of the other threads: each call has some cost of its own.
LEAST_CAP = 128
T = TypeVar("T")

# The places, in the request, of the rows of one batch.
Batch = tuple[int, ...]


def form(lengths: Sequence[int], max_padded_tokens: int = MAX_PADDED_TOKENS, *, batchable: bool = True) -> list[Batch]:
    """Every place of `lengths` in exactly one batch; rows times longest row stays within the cap, single rows aside.

    Longest first: the last batches, which decide when two workers are both done, are then the cheap ones.
    A model that is not `batchable` gets one row a batch, so that nothing is ever padded.
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


def shared_cap(lengths: Sequence[int], threads: int, max_padded_tokens: int) -> int:
    """The cap with which a small request is work for every thread, and not one batch for one of them."""
    return min(max_padded_tokens, max(LEAST_CAP, -(-sum(lengths) // threads)))


def in_tiers(
    lengths: Sequence[int], tiers: Sequence[range], max_padded_tokens: int, *, batchable: bool = True
) -> list[Batch]:
    """Batches as of `form` within each of `tiers`, which cover the places; tier by tier.

    Within a tier those with the best ranked row come first: when time runs out, what is left is what ranked low.
    """
    batches: list[Batch] = []
    for tier in tiers:
        formed = form([lengths[place] for place in tier], max_padded_tokens, batchable=batchable)
        batches += sorted((tuple(tier.start + place for place in batch) for batch in formed), key=min)
    return batches


def restored(batches: Sequence[Batch], results: Sequence[Sequence[T]]) -> list[T]:
    """The results of all batches in the order of the request."""
    by_place = {
        place: result
        for batch, of_batch in zip(batches, results, strict=True)
        for place, result in zip(batch, of_batch, strict=True)
    }
    return [by_place[place] for place in range(len(by_place))]
