"""Defines the port of the sparse service: an Encoder of services/vectorservice, and what dialects need besides."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from services.chassis.deadlines import Deadline
from services.contracts.explanation import Match
from services.vectorstore.representation import Sparse, SparseVector, Vector


class SparseEncoder(Protocol):
    """An ExplainingEncoder of services/vectorservice whose vectors are weights of terms, none of them negative."""

    @property
    def representation(self) -> Sparse:
        """The representation of its vectors."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """Everything that determines its vectors: equal stamps mean equal vectors."""
        ...

    @property
    def max_tokens(self) -> int:
        """The most tokens of a text that the model reads; a longer text is cut."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> SparseVector:
        """Encodes one query."""
        ...

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Sequence[SparseVector]:
        """Encodes one vector for each passage, in their order."""
        ...

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline
    ) -> Sequence[tuple[Match, ...]]:
        """Returns for each document the terms that it shares with the query: highest score first, then by number."""
        ...

    async def lengths(self, texts: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each text, special tokens included, before truncation."""
        ...

    async def close(self) -> None:
        """Stops the threads. No other method may be called afterwards."""
        ...
