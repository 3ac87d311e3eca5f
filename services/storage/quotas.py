"""How many generations a server may hold for us: each costs it memory, files and a part of every listing."""

from collections.abc import Collection

from services.chassis.errors import Conflict

USUAL_MOST = 128
_NAMED = 5


def refuse_one_more(generation: str, held: Collection[str], published: Collection[str], most: int) -> None:
    """Raises Conflict, saying what may be removed, when a generation that is not there would be one too many.

    Those begun at the same moment may pass it together: it bounds what piles up, not the last one to the number.
    """
    if generation in held or len(held) < most:
        return
    unpublished = sorted(set(held) - set(published))
    named = f" (unpublished are: {', '.join(unpublished[:_NAMED])})" if unpublished else ""
    raise Conflict(
        f"{len(held)} generations are here, as many as there may be (MOST_GENERATIONS): remove a collection that is "
        f"not needed any more{named}, then begin {generation}."
    )
