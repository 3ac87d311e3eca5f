"""An encoder without weights: words hashed into signed buckets. For tests; it knows no meaning, only shared words."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded
from services.dense.encoder import Role, Vectors
from services.inference.words import word_count, words_of
from services.vectorstore.representation import Dense, DenseVector

DIMENSION = 256  # as many as a byte of the hash can name; stands in the stamp too


class HashingEncoder:
    """Promises what DenseEncoder promises. A text without words becomes the zero vector."""

    representation = Dense(DIMENSION)
    max_tokens = 8_192
    stamp: Mapping[str, str] = {
        "model": "hashing",
        "weights_sha256": "none",
        "dimension": str(DIMENSION),
        "schema": "1",
    }

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """The query's words."""
        _in_time(deadline)
        return _vector(text)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Each passage's words."""
        _in_time(deadline)
        vectors = await asyncio.to_thread(lambda: [_vector(text) for text in texts])
        return np.array(vectors, dtype=np.float32).reshape(-1, DIMENSION)

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """The words of each text."""
        return await asyncio.to_thread(lambda: tuple(map(word_count, texts)))

    async def close(self) -> None:
        """Owns nothing."""


def _in_time(deadline: Deadline) -> None:
    if not deadline.remaining_ms:
        raise DeadlineExceeded("The deadline passed before encoding began; send a larger X-Deadline-Ms.")


def _vector(text: str) -> DenseVector:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    for word in islice(words_of(text), HashingEncoder.max_tokens):
        bucket, sign = blake2b(word.encode(), digest_size=2).digest()
        vector[bucket] += 1.0 if sign & 1 else -1.0
    length = np.linalg.norm(vector)
    return vector / length if length else vector
