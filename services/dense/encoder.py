"""The port of the dense service: a vector service's encoder, and what its dialects ask of one besides."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.vectorstore.representation import Dense, DenseVector

Vectors = NDArray[np.float32]  # [texts, dimension]
# A model may put another prefix before each.
Role = Literal["query", "passage"]


class DenseEncoder(Protocol):
    """Promises what Encoder of services/vectorservice promises, for fp32 vectors compared by dot product."""

    @property
    def representation(self) -> Dense:
        """Its dimension."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """All that decides its vectors: equal stamps give equal vectors."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads; a longer one is cut."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        """One query: fp32 [dimension]."""
        ...

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        """One row a passage, in their order: fp32 [passages, dimension]."""
        ...

    async def lengths(self, texts: Sequence[str], role: Role, deadline: Deadline) -> tuple[int, ...]:
        """Tokens of each text, prefix and special ones among them, before anything is cut."""
        ...

    async def close(self) -> None:
        """Ends the threads. Nothing may be encoded afterwards."""
        ...
