"""The order of equal scores, also at the cut: engines return ties as they find them (by insertion), we by id."""

from collections.abc import Awaitable, Callable, Sequence

from services.contracts.retrieval import RetrievedHit

# Asked for beyond the cut at first: enough for ordinary duplicates, and it costs next to nothing.
FIRST_EXTRA = 16
# Beyond the cut at most: when more documents than this tie with the last place, which of them appear is the engine's
# choice (those that appear are in order all the same).
MOST_EXTRA = 4_096

Fetch = Callable[[int], Awaitable[Sequence[RetrievedHit]]]


async def settled(fetch: Fetch, top: int) -> tuple[RetrievedHit, ...]:
    """The `top` best hits, equal scores by ascending id. `fetch(n)` gives the engine's n best, best first.

    Fetches deeper until a score falls below the last place's, so that nothing that ties with it is missed.
    """
    extra = FIRST_EXTRA
    while True:
        hits = await fetch(top + extra)
        complete = len(hits) < top + extra or hits[-1].score < hits[top - 1].score
        if complete or extra >= MOST_EXTRA:
            return tuple(sorted(hits, key=lambda hit: (-hit.score, hit.id))[:top])
        extra = min(extra * 16, MOST_EXTRA)
