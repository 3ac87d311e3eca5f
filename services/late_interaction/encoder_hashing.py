"""Encodes each word as a vector that follows from its hash. Needs no model; for tests: only equal words are near."""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from services.chassis.deadlines import Deadline
from services.contracts.explanation import Match
from services.inference.explained_matches import best_matches
from services.inference.passages import lowercase_words
from services.storage.representation import MultiVector, Storage, TokenVectors, Vector

DIMENSION = 64  # bits of a word's hash; part of the stamp
MAX_WORDS = 256
END = "[END]"


class HashingTokenEncoder:
    """Implements ExplainingEncoder: a vector for each word, and one for the end of a text."""

    stamp: Mapping[str, str] = {
        "model": "hashing",
        "weights_sha256": "none",
        "dimension": str(DIMENSION),
        "schema": "1",
    }

    def __init__(self, storage: Storage = "turbo4") -> None:
        """`storage`: what a store keeps of the vectors."""
        self.representation = MultiVector(DIMENSION, storage)

    async def encode_query(self, text: str, deadline: Deadline) -> TokenVectors:
        """Encodes one query: fp32 [words + 1, dimension], rows of length 1."""
        return (await self.encode_passages((text,), deadline))[0]

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> list[TokenVectors]:
        """Encodes each passage: fp32 [words + 1, dimension], rows of length 1."""
        deadline.require_before("encoding")
        return await asyncio.to_thread(lambda: [_vectors(text) for text in texts])

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline
    ) -> list[tuple[Match, ...]]:
        """Returns the nearest word of each passage for each word of the query; the end of a text is `[END]`."""
        query_vectors = await self.encode_query(query, deadline)
        pairs = zip(passages, vectors, strict=True)
        words, weights = _tokens(query, END), np.ones(len(query_vectors), dtype=np.float32)
        return [best_matches(query_vectors, words, weights, vector, _tokens(passage, END)) for passage, vector in pairs]

    async def close(self) -> None:
        """Does nothing: it owns no threads."""


def _tokens(text: str, end: str) -> tuple[str, ...]:
    return (*islice(lowercase_words(text), MAX_WORDS), end)


def _vectors(text: str) -> TokenVectors:
    words = _tokens(text, "")
    hashes = b"".join(
        blake2b(word.encode("utf-8", "surrogatepass"), digest_size=DIMENSION // 8).digest() for word in words
    )
    bits = np.unpackbits(np.frombuffer(hashes, dtype=np.uint8)).reshape(-1, DIMENSION)
    return (2.0 * bits.astype(np.float32) - 1.0) / np.float32(DIMENSION**0.5)
