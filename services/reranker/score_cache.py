"""Scores given before, bounded by memory: by model, precision, tokenizer, token limit, query and passage."""

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

# A key of 16 bytes, a float and their share of the dictionary, in bytes (CPython 3.11, 64 bits).
ENTRY_BYTES = 184


class ScoreCache:
    """At most `most_bytes` of scores; who was not asked for longest goes first. For one thread, the event loop's.

    `stamp` names all that scores depend on beside query and passage.
    """

    def __init__(self, stamp: str, most_bytes: int) -> None:
        self._stamp = hashlib.blake2b(stamp.encode(), digest_size=32).digest()
        self._most = most_bytes // ENTRY_BYTES
        self._scores: OrderedDict[bytes, float] = OrderedDict()

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
        """One score a key, None where there is none."""
        for key in keys:
            if key in self._scores:
                self._scores.move_to_end(key)
        return [self._scores.get(key) for key in keys]

    def keep(self, key: bytes, score: float) -> None:
        """Remembers a score."""
        self._scores[key] = score
        self._scores.move_to_end(key)
        while len(self._scores) > self._most:
            self._scores.popitem(last=False)
