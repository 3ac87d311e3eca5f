"""The port of the dense service: what turns texts into vectors."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from services.chassis.deadlines import Deadline
from services.vectorstore.store import Vector

Vectors = NDArray[np.float32]
# A model may put another prefix before each.
Role = Literal["query", "passage"]


class Encoder(Protocol):
    """Turns texts into vectors whose dot product is their nearness.

    A vector depends on its text alone, not on the texts beside it or on what else is being encoded; a text may be
    empty. Queries never wait for passages that wait. When the deadline passes, or the caller is cancelled, the work
    that has not begun is dropped (DeadlineExceeded); when too much is waiting, nothing begins (Overloaded). The event
    loop goes on meanwhile, however long the texts are.
    """

    @property
    def dimension(self) -> int:
        """Components of a vector."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """All that decides its vectors: equal stamps give equal vectors."""
        ...

    @property
    def max_tokens(self) -> int:
        """Tokens of a text that the model reads; a longer one is cut."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> Vector:
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
