"""Owns an LRU cache of query vectors, bounded by bytes, and its keys. Does not know models or requests."""

import hashlib
from collections.abc import Mapping

from cachetools import LRUCache

from services.vectorstore.representation import DenseVector

# Bytes of one entry besides its components, at most: a key of 16 bytes, its array's header, its part of the cache's
# dictionaries (CPython 3.11, 64 bits).
ENTRY_BYTES = 560


class QueryVectorCache:
    """Keeps at most `most_bytes` of vectors and evicts the least recently used. Not thread-safe: for the event loop.

    `stamp` is the encoder's: model, hash of the weights, precision with its arithmetic, prefix, and all else that
    determines a vector.
    """

    def __init__(self, stamp: Mapping[str, str], most_bytes: int) -> None:
        self._stamp = hashlib.blake2b(repr(sorted(stamp.items())).encode(), digest_size=32).digest()
        self._vectors: LRUCache[bytes, DenseVector] = LRUCache(most_bytes, getsizeof=_size)

    def __len__(self) -> int:
        return len(self._vectors)

    @property
    def used_bytes(self) -> int:
        """Computed size of all entries, in bytes."""
        return int(self._vectors.currsize)

    def key(self, text: str) -> bytes:
        """Returns the key of a query, 128 bits; the chance that two of 2^32 queries share one is 2^-65."""
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16, key=self._stamp).digest()

    def lookup(self, key: bytes) -> DenseVector | None:
        """Returns the vector of a key; None for a key that is not cached."""
        return self._vectors.get(key)

    def put(self, key: bytes, vector: DenseVector) -> None:
        """Adds a vector that no caller changes any more, unless it alone is larger than the cache."""
        if _size(vector) <= self._vectors.maxsize:
            self._vectors[key] = vector


def _size(vector: DenseVector) -> int:
    return ENTRY_BYTES + vector.nbytes
