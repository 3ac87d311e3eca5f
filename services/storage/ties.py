"""Orders equal scores by id, also at the cut: engines return ties by insertion."""

from collections.abc import Awaitable, Callable, Sequence

from services.contracts.retrieval import FIRST_EXTRA
from services.contracts.scored import Ranking, Scored, in_rank_order

# Most hits fetched beyond the cut. Of more that tie with the last place, the engine chooses some, ordered by id.
MOST_EXTRA = 4_096

Fetch = Callable[[int], Awaitable[Sequence[Scored]]]


async def settle_ties(fetch: Fetch, top: int) -> Ranking:
    """Returns the `top` best hits, equal scores by ascending id. `fetch(n)` returns the engine's n best, best first.

    Fetches deeper until a score falls below that of the last place, so that no tie with it is missed.
    """
    extra = FIRST_EXTRA
    while True:
        hits = await fetch(top + extra)
        complete = len(hits) < top + extra or hits[-1].score < hits[top - 1].score
        if complete or extra >= MOST_EXTRA:
            return tuple(in_rank_order(hits)[:top])
        extra = min(extra * 16, MOST_EXTRA)
