"""Weighs the words of texts by how often they occur. Needs no model; for tests: only shared words count."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import islice

import numpy as np

from services.chassis.deadlines import Deadline
from services.contracts.explanation import Match
from services.inference.explained_matches import matches_of_all
from services.inference.passages import count_words, lowercase_words
from services.storage.representation import Sparse, SparseVector, Vector


class HashingTermEncoder:
    """Implements SparseEncoder: a term is a word's hash, its weight log(1 + count). A text without words has none."""

    representation = Sparse()
    max_tokens = 8_192
    stamp: Mapping[str, str] = {"model": "hashing", "weights_sha256": "none", "schema": "1"}

    async def encode_query(self, text: str, deadline: Deadline) -> SparseVector:
        """Encodes one query."""
        return (await self.encode_passages([text], deadline))[0]

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> list[SparseVector]:
        """Encodes the passages, in their order."""
        deadline.require_before("encoding")
        return await asyncio.to_thread(lambda: [_vector(text) for text in texts])

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline
    ) -> list[tuple[Match, ...]]:
        """Returns for each document the words that it shares with the query."""
        query_vector = await self.encode_query(query, deadline)
        words = {_term(word): word for word in _words(query)}
        return await matches_of_all(query_vector, vectors, words.__getitem__)

    async def lengths(self, texts: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        return await asyncio.to_thread(lambda: tuple(map(count_words, texts)))

    async def close(self) -> None:
        """Does nothing: it owns no threads."""


def _words(text: str) -> list[str]:
    return list(islice(lowercase_words(text), HashingTermEncoder.max_tokens))


def _term(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=4).digest())


def _vector(text: str) -> SparseVector:
    counts = sorted(Counter(map(_term, _words(text))).items())
    terms = np.array([term for term, _ in counts], dtype=np.uint32)
    return SparseVector(terms, np.log1p(np.array([count for _, count in counts], dtype=np.float32)))
