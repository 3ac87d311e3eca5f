"""The port of a vector service: what turns texts into vectors of one representation."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from services.chassis.deadlines import Deadline
from services.vectorstore.representation import Representation, Vector


class Encoder(Protocol):
    """Turns texts into vectors whose score, by the representation, is their nearness.

    A vector depends on its text alone, not on the texts beside it or on what else is being encoded; a text may be
    empty. Queries never wait for passages that wait. When the deadline passes, or the caller is cancelled, the work
    that has not begun is dropped (DeadlineExceeded); when too much is waiting, nothing begins (Overloaded). The event
    loop goes on meanwhile, however long the texts are.
    """

    @property
    def representation(self) -> Representation:
        """What its vectors are."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """All that decides its vectors: equal stamps give equal vectors. `model` names it."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> Vector:
        """One query."""
        ...

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[Vector]:
        """One vector a passage, in their order."""
        ...

    async def close(self) -> None:
        """Ends the threads. Nothing may be encoded afterwards."""
        ...
