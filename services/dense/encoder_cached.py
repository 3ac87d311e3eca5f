"""Answers queries from a cache of vectors, and encodes only what is missing, equal queries in flight once.

query_vector_cache.py owns the cache itself. Passages pass through: the store keeps their vectors.
"""

import asyncio
from collections.abc import Sequence

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.chassis.requests.caching import no_store_requested, record_lookups
from services.dense.encoder import DenseEncoder, Role, Vectors
from services.dense.query_vector_cache import QueryVectorCache
from services.vectorstore.representation import DenseVector


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
