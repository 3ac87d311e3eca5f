"""Defines the port of the sparse service: an Encoder of services/vectorservice that also counts tokens."""

from collections.abc import Sequence
from typing import Protocol

from services.chassis.deadlines import Deadline
from services.storage.representation import Sparse, SparseVector
from services.vectorservice.encoder import ExplainingEncoder


class SparseEncoder(ExplainingEncoder, Protocol):
    """An ExplainingEncoder whose vectors are weights of terms, none of them negative.

    It explains a score by the terms that document and query share, equal ones by number.
    """

    @property
    def representation(self) -> Sparse:
        """The representation of its vectors."""
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

    async def lengths(self, texts: Sequence[str], deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each text, special tokens included, before truncation."""
        ...
