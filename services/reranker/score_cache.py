"""LRU cache of scores, bounded by bytes. Owns the keys: model, precision, tokenizer, token limit, query and passage."""

import hashlib
from collections.abc import Sequence

from cachetools import LRUCache

# A key of 16 bytes, a float and their share of the cache's two dictionaries, in bytes (CPython 3.11, 64 bits).
ENTRY_BYTES = 240


class ScoreCache:
    """Keeps at most `most_bytes` of scores; the least recently used go first. For one thread, the event loop's.

    `stamp` names all that scores depend on beside query and passage.
    """

    def __init__(self, stamp: str, most_bytes: int) -> None:
        self._stamp = hashlib.blake2b(stamp.encode(), digest_size=32).digest()
        self._scores: LRUCache[bytes, float] = LRUCache(most_bytes // ENTRY_BYTES)

    def __len__(self) -> int:
        return len(self._scores)

    def keys(self, query: str, passages: Sequence[str]) -> list[bytes]:
        """One key a passage, 128 bits of a hash: among 2^32 scores two share one by chance once in 2^65 times."""
        asked = hashlib.blake2b(query.encode("utf-8", "surrogatepass"), digest_size=32, key=self._stamp).digest()
        return [
            hashlib.blake2b(passage.encode("utf-8", "surrogatepass"), digest_size=16, key=asked).digest()
            for passage in passages
        ]

    def known(self, keys: Sequence[bytes]) -> list[float | None]:
        """Looks scores up: one a key, None where there is none."""
        return [self._scores.get(key) for key in keys]

    def keep(self, key: bytes, score: float) -> None:
        """Keeps a score."""
        if self._scores.maxsize:
            self._scores[key] = score
