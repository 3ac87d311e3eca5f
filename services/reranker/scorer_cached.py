"""A scorer that remembers: what was scored before is not scored again, unless the caller wants it fresh."""

from collections.abc import Sequence

from services.chassis.caching import no_store_requested, record_lookups
from services.chassis.deadlines import Deadline
from services.reranker.score_cache import ScoreCache
from services.reranker.scorer import Scorer


class CachedScorer:
    """Promises what Scorer promises, by way of another one. Right for any scorer whose scores depend on the pair alone.

    A request with `Cache-Control: no-store` neither reads nor writes the cache.
    """

    def __init__(self, inner: Scorer, cache: ScoreCache) -> None:
        self._inner = inner
        self._cache = cache
        self.model = inner.model
        self.weight = inner.weight
        self.bounded = inner.bounded
        self.max_tokens = inner.max_tokens

    async def score(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float, ...]:
        """One score a passage; raises what the inner scorer raises."""
        if no_store_requested():
            return await self._inner.score(query, passages, deadline)
        keys, known, missing = self._looked_up(query, passages)
        if missing:
            scores = await self._inner.score(query, [passages[place] for place in missing], deadline)
            self._learn(keys, known, missing, scores)
        return tuple(score for score in known if score is not None)

    async def score_until(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[float | None, ...]:
        """One score a passage as far as there is time; what is remembered needs none."""
        if no_store_requested():
            return await self._inner.score_until(query, passages, deadline)
        keys, known, missing = self._looked_up(query, passages)
        if missing:
            scores = await self._inner.score_until(query, [passages[place] for place in missing], deadline)
            self._learn(keys, known, missing, scores)
        return tuple(known)

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Tokens of each pair before it is cut."""
        return await self._inner.lengths(query, passages, deadline)

    async def close(self) -> None:
        """Ends the inner scorer."""
        await self._inner.close()

    def _looked_up(self, query: str, passages: Sequence[str]) -> tuple[list[bytes], list[float | None], list[int]]:
        """Keys and what is known for them, and the places for which nothing is."""
        keys = self._cache.keys(query, passages)
        known = self._cache.known(keys)
        missing = [place for place, score in enumerate(known) if score is None]
        record_lookups(len(known) - len(missing), len(known))
        return keys, known, missing

    def _learn(
        self, keys: Sequence[bytes], known: list[float | None], missing: Sequence[int], scores: Sequence[float | None]
    ) -> None:
        """Puts the scores of the missing places into `known`, and into the cache."""
        for place, score in zip(missing, scores, strict=True):
            known[place] = score
            if score is not None:
                self._cache.keep(keys[place], score)
