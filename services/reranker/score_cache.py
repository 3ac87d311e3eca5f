"""Owns an LRU cache of scores, bounded by bytes, and its keys. Does not know models or requests."""

import hashlib
from collections.abc import Sequence

from cachetools import LRUCache

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

    def keys(self, query: str, passages: Sequence[str]) -> list[bytes]:
        """Returns a key of 128 bits for each passage; the chance that two of 2^32 pairs share one is 2^-65."""
        asked = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=32, key=self._stamp).digest()
        return [
            hashlib.blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16, key=asked).digest()
            for passage in passages
        ]

    def lookup(self, keys: Sequence[bytes]) -> list[float | None]:
        """Returns the score of each key, None for a key that is not cached."""
        return [self._scores.get(key) for key in keys]

    def put(self, key: bytes, score: float) -> None:
        """Adds a score."""
        if self._scores.maxsize:
            self._scores[key] = score
