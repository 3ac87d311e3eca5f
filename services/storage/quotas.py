"""Bounds the number of generations in an engine: each costs memory, files and time in every listing."""

from collections.abc import Collection

from services.chassis.errors import Conflict

DEFAULT_MOST_GENERATIONS = 128


def refuse_one_more(generation: str, held: Collection[str], most: int) -> None:
    """Raises Conflict if a new generation would exceed the bound. Names no other: a caller's key may be bound.

    Concurrent calls may exceed it slightly: it bounds growth, not the exact number.
    """
    if generation in held or len(held) < most:
        return
    raise Conflict(
        f"{len(held)} generations are here, as many as there may be (MOST_GENERATIONS): remove a collection that is "
        f"not needed any more (GET /v1/collections lists what is not published, too), then begin {generation}."
    )
