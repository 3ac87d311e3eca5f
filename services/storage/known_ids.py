"""Finds points of a shard, and remembers the caller's ids of those that were hits. Blocking."""

from typing import cast
from uuid import UUID

import qdrant_edge as edge

from services.contracts.scored import Ranking, paired

# Ids of a generation above which they are forgotten before a search: reading them again costs that search what its
# first one cost.
MOST_KNOWN_IDS = 50_000


class KnownIds:
    """The caller's ids by the number of their points. A point's id is computed from the caller's id, so none becomes
    stale. Of 116 hits, Edge reads the payloads in 0.6 ms; from here ids take 0.1 ms. For the event loop."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def ranking(self, shard: edge.EdgeShard, request: edge.QueryRequest) -> Ranking:
        """Returns the hits of a request without payload, in Edge's order: best first, equal scores in any order."""
        points = shard.query(request)
        known = self._ids
        if len(known) > MOST_KNOWN_IDS:
            known.clear()
        ids = cast(list[UUID], [point.id for point in points])
        numbers = [one.int for one in ids]
        if unknown := [one for one in ids if one.int not in known]:
            for record in shard.retrieve(list(unknown), with_payload=["id"], with_vector=False):
                if record.payload is not None:
                    known[cast(UUID, record.id).int] = record.payload["id"]
        # A point that was deleted since the query is left out.
        return paired((known[one], point.score) for one, point in zip(numbers, points, strict=True) if one in known)
