"""Bounds the number of generations in an engine: each costs memory, files and time in every listing."""

from collections.abc import Collection

from services.chassis.errors import Conflict

DEFAULT_MOST_GENERATIONS = 128
_NAMED = 5


def refuse_one_more(generation: str, held: Collection[str], published: Collection[str], most: int) -> None:
    """Raises Conflict, saying what may be removed, if a new generation would exceed the bound.

    Concurrent calls may exceed it slightly: it bounds growth, not the exact number.
    """
    if generation in held or len(held) < most:
        return
    unpublished = sorted(set(held) - set(published))
    named = f" (unpublished are: {', '.join(unpublished[:_NAMED])})" if unpublished else ""
    raise Conflict(
        f"{len(held)} generations are here, as many as there may be (MOST_GENERATIONS): remove a collection that is "
        f"not needed any more{named}, then begin {generation}."
    )
