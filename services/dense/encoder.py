"""Defines the port of the dense service: an Encoder of services/vectorservice that also cuts and counts texts."""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.contracts.passages import Passages
from services.storage.representation import Dense, DenseVector
from services.vectorservice.encoder import Encoder

Vectors = NDArray[np.float32]  # [texts, dimension]
# A model may need a different prefix for each.
Role = Literal["query", "passage"]


class DenseEncoder(Encoder, Protocol):
    """An Encoder whose vectors are fp32 and compared by dot product."""

    @property
    def representation(self) -> Dense:
        """The representation of its vectors, with their dimension."""
        ...

    @property
    def max_tokens(self) -> int:
        """The most tokens of a text that the model reads; a longer text is cut."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """Encodes one query: fp32 [dimension]."""
        ...

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """Encodes one row for each passage, in their order: fp32 [passages, dimension]."""
        ...

    async def cut(
        self, documents: Sequence[tuple[str, str]], passages: Passages, deadline: Deadline
    ) -> Sequence[Sequence[str]]:
        """Cuts documents, each a title and a text, into passages of at most `passages.tokens`, as `lengths` counts.

        A document that fits is one passage, `<title> <text>`. In others the title stands in front of each. A word that
        is cut in two may have more tokens in its passages.
        """
        ...

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """Counts the tokens of each text, prefix and special tokens included, before truncation."""
        ...


def normalised(vectors: Vectors) -> Vectors:
    """Scales rows to length 1; a zero row stays zero."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(norms > 0, norms, 1), dtype=np.float32)
