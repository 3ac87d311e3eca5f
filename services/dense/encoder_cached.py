"""Answers queries from a cache of vectors, and encodes only what is missing, equal queries in flight once.

Owns the cache, an LRU bounded by bytes, and its keys. Passages pass through: the store keeps their vectors.
"""

import asyncio
import hashlib
from collections.abc import Mapping, Sequence

from cachetools import LRUCache

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.chassis.requests.telemetry import no_store_requested, record_lookups
from services.contracts.passages import Passages
from services.dense.encoder import DenseEncoder, Role, Vectors
from services.storage.representation import DenseVector

# Most bytes of an entry besides its components: key, array header, dictionaries of the cache (CPython 3.11, 64 bits).
ENTRY_BYTES = 560


class QueryVectorCache:
    """Keeps at most `most_bytes` of vectors and evicts the least recently used. Not thread-safe: for the event loop.

    `stamp` is the encoder's: all that determines a vector, such as weights, precision, arithmetic and prefix.
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


class CachedEncoder:
    """Implements DenseEncoder over another encoder, whose vectors depend only on its stamp and the text.

    A request with `Cache-Control: no-store` neither reads nor writes the cache, and shares no encoding. A failed or
    cancelled encoding leaves nothing behind: the next of the equal queries that wait for it encodes for itself.
    """

    def __init__(self, inner: DenseEncoder, cache: QueryVectorCache) -> None:
        self._inner = inner
        self._cache = cache
        # By key: encodings that run. The result is None where one failed or was cancelled.
        self._running: dict[bytes, asyncio.Future[DenseVector | None]] = {}
        self.representation = inner.representation
        self.stamp = inner.stamp
        self.max_tokens = inner.max_tokens

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """Returns the vector of one query, read-only: fp32 [dimension]; raises what the inner encoder raises.

        A vector that an equal query in flight gave counts as cached.
        """
        if no_store_requested():
            return await self._inner.encode_query(text, deadline)
        key = self._cache.key(text)
        vector = await self._known(key, deadline)
        record_lookups(int(vector is not None), 1)
        return await self._encode(key, text, deadline) if vector is None else vector

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Encodes one row for each passage, uncached: fp32 [passages, dimension]."""
        return await self._inner.encode_passages(texts, deadline)

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline
    ) -> Sequence[Sequence[str]]:
        """Cuts documents into passages."""
        return await self._inner.cut(documents, passages, deadline)

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each text before truncation."""
        return await self._inner.lengths(texts, role, deadline)

    async def close(self) -> None:
        """Closes the inner encoder."""
        await self._inner.close()

    async def _known(self, key: bytes, deadline: Deadline) -> DenseVector | None:
        """Returns the vector from the cache or an equal query in flight, None where neither has it."""
        while (vector := self._cache.lookup(key)) is None and (running := self._running.get(key)) is not None:
            if (vector := await _result(running, deadline)) is not None:
                break
        return vector

    async def _encode(self, key: bytes, text: str, deadline: Deadline) -> DenseVector:
        running = self._running[key] = asyncio.get_running_loop().create_future()
        vector: DenseVector | None = None
        try:
            # A copy, because a row keeps its whole batch in memory; read-only, because several requests hold it.
            encoded = (await self._inner.encode_query(text, deadline)).copy()
            encoded.flags.writeable = False
            self._cache.put(key, encoded)
            vector = encoded
        finally:
            del self._running[key]
            running.set_result(vector)
        return vector


async def _result(running: asyncio.Future[DenseVector | None], deadline: Deadline) -> DenseVector | None:
    """Waits for another request's encoding without cancelling it. Raises DeadlineExceeded."""
    done, _ = await asyncio.wait((running,), timeout=deadline.remaining_s)
    if not done:
        raise DeadlineExceeded("The deadline passed while an equal query was encoded; send a larger X-Deadline-Ms.")
    return running.result()
