"""Encodes texts by hashing their words into signed buckets. Needs no model; for tests: only shared words count."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from services.chassis.deadlines import Deadline
from services.contracts.passages import Passages
from services.dense.encoder import Role, Vectors
from services.inference.passages import count_words, cut_words, lowercase_words
from services.storage.representation import Dense, DenseVector

DIMENSION = 256  # one byte of the hash chooses the bucket; part of the stamp


class HashingEncoder:
    """Implements DenseEncoder. A text without words gives the zero vector."""

    representation = Dense(DIMENSION)
    max_tokens = 8_192
    stamp: Mapping[str, str] = {
        "model": "hashing",
        "weights_sha256": "none",
        "dimension": str(DIMENSION),
        "schema": "1",
    }

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """Encodes one query: fp32 [dimension], of length 1."""
        deadline.require_before("encoding")
        return _vector(text)

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Encodes the passages: fp32 [passages, dimension], rows of length 1."""
        deadline.require_before("encoding")
        vectors = await asyncio.to_thread(lambda: [_vector(text) for text in texts])
        return np.array(vectors, dtype=np.float32).reshape(-1, DIMENSION)

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline
    ) -> list[list[str]]:
        """Cuts documents, each a title and a text, into passages of so many words."""
        return await asyncio.to_thread(lambda: [cut_words(*document, passages) for document in documents])

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        return await asyncio.to_thread(lambda: tuple(map(count_words, texts)))

    async def close(self) -> None:
        """Does nothing: it owns no threads."""


def _vector(text: str) -> DenseVector:
    vector = np.zeros(DIMENSION, dtype=np.float32)
    for word in islice(lowercase_words(text), HashingEncoder.max_tokens):
        bucket, sign = blake2b(word.encode(), digest_size=2).digest()
        vector[bucket] += 1.0 if sign & 1 else -1.0
    length = np.linalg.norm(vector)
    return vector / length if length else vector
