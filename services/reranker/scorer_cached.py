"""Answers from a cache of scores, and scores only what is missing. Owns the cache, an LRU bounded by bytes."""

import hashlib
import itertools
import struct
from collections.abc import Sequence
from functools import partial

from cachetools import LRUCache

from services.chassis.deadlines import Deadline
from services.chassis.requests.telemetry import no_store_requested, record_lookups
from services.contracts.passages import Passages
from services.contracts.rerank import LEAST_SCORED
from services.inference.partial_scores import PartialScores
from services.inference.passages import Split
from services.reranker.scorer import Scorer

# Bytes of one entry: a key of 16 bytes, a float, their part of the cache's two dictionaries (CPython 3.11, 64 bits).
ENTRY_BYTES = 240


class ScoreCache:
    """Keeps at most `most_bytes` of scores and evicts the least recently used. Not thread-safe: for the event loop.

    `stamp` identifies everything else that determines a score: model, precision, tokenizer, token limit.
    """

    def __init__(self, stamp: str, most_bytes: int) -> None:
        self._stamp = hashlib.blake2b(stamp.encode(), digest_size=32).digest()
        self._scores: LRUCache[bytes, float] = LRUCache(most_bytes // ENTRY_BYTES)

    def __len__(self) -> int:
        return len(self._scores)

    def keys(self, query: str, passages: Sequence[str], split: Split | None = None) -> list[bytes]:
        """Returns a key of 128 bits for each passage; the chance that two of 2^32 pairs share one is 2^-65."""
        query_key = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=32, key=self._stamp).digest()
        salts = itertools.repeat(b"") if split is None else map(partial(_salt, split.passages), split.titles)
        return [
            hashlib.blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16, key=query_key, salt=salt).digest()
            for passage, salt in zip(passages, salts, strict=False)
        ]

    def lookup(self, keys: Sequence[bytes]) -> list[float | None]:
        """Returns the score of each key, None for a key that is not cached."""
        return [self._scores.get(key) for key in keys]

    def put(self, key: bytes, score: float) -> None:
        """Adds a score."""
        if self._scores.maxsize:
            self._scores[key] = score


def _salt(passages: Passages, title: int) -> bytes:
    """Returns what a score depends on beside the pair, in the 16 bytes of a salt; never that of no split."""
    return struct.pack("<IIQ", passages.tokens, passages.overlap, title)


class CachedScorer:
    """Implements Scorer over another scorer whose scores depend only on the pair.

    A request with `Cache-Control: no-store` neither reads nor writes the cache.
    """

    def __init__(self, inner: Scorer, cache: ScoreCache) -> None:
        self._inner = inner
        self._cache = cache
        self.model = inner.model
        self.weight = inner.weight
        self.bounded = inner.bounded
        self.max_tokens = inner.max_tokens

    async def score(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> tuple[float, ...]:
        """Returns one score for each passage; raises what the inner scorer raises."""
        if no_store_requested():
            return await self._inner.score(query, passages, deadline, split)
        keys, known, missing = self._look_up(query, passages, split)
        if missing:
            unknown = [passages[place] for place in missing]
            scores = await self._inner.score(query, unknown, deadline, split and split.of(missing))
            self._remember(keys, known, missing, scores)
        return tuple(score for score in known if score is not None)

    async def score_until(
        self, query: str, passages: Sequence[str], deadline: Deadline, split: Split | None = None
    ) -> PartialScores:
        """Returns one score for each passage, None where time does not suffice; cached scores need no time."""
        if no_store_requested():
            return await self._inner.score_until(query, passages, deadline, split)
        keys, known, missing = self._look_up(query, passages, split)
        if not missing:
            return PartialScores(tuple(known))
        unknown = [passages[place] for place in missing]
        scored = await self._inner.score_until(query, unknown, deadline, split and split.of(missing))
        self._remember(keys, known, missing, scored.scores)
        enough = len(known) - known.count(None) >= min(LEAST_SCORED, len(passages))
        return PartialScores(tuple(known), None if enough else scored.needs_s)

    async def lengths(self, query: str, passages: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each pair before truncation."""
        return await self._inner.lengths(query, passages, deadline)

    async def close(self) -> None:
        """Closes the inner scorer."""
        await self._inner.close()

    def _look_up(
        self, query: str, passages: Sequence[str], split: Split | None
    ) -> tuple[list[bytes], list[float | None], list[int]]:
        """Returns the keys, their cached scores, and the positions that have none."""
        keys = self._cache.keys(query, passages, split)
        known = self._cache.lookup(keys)
        missing = [place for place, score in enumerate(known) if score is None]
        record_lookups(len(known) - len(missing), len(known))
        return keys, known, missing

    def _remember(
        self, keys: Sequence[bytes], known: list[float | None], missing: Sequence[int], scores: Sequence[float | None]
    ) -> None:
        """Writes the scores of the missing positions into `known` and the cache."""
        for place, score in zip(missing, scores, strict=True):
            known[place] = score
            if score is not None:
                self._cache.put(keys[place], score)
