"""Defines the port of a vector service: Encoder, which encodes texts as vectors of one representation.

DocumentEncoder encodes documents by their parts. ExplainingEncoder, which can explain scores, has a route of its own.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from services.chassis.deadlines import Deadline
from services.contracts.documents import Document
from services.contracts.explanation import Match
from services.storage.representation import Representation, Vector


class Encoder(Protocol):
    """Encodes texts as vectors. The representation determines how two vectors are scored.

    A vector depends only on its text, not on other texts of the batch or on concurrent requests. A text may be empty.
    Queries have priority over queued passages. When the deadline passes (DeadlineExceeded) or the caller is cancelled,
    work that has not begun is dropped. When the queue is full, nothing begins (Overloaded). Encoding never blocks the
    event loop, however long the texts are.
    """

    @property
    def representation(self) -> Representation:
        """The representation of its vectors."""
        ...

    @property
    def stamp(self) -> Mapping[str, str]:
        """Everything that determines its vectors: equal stamps mean equal vectors. `model` is the model's name."""
        ...

    async def encode_query(self, text: str, deadline: Deadline) -> Vector:
        """Encodes one query."""
        ...

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Iterable[Vector]:
        """Encodes one vector for each passage, in their order."""
        ...

    async def close(self) -> None:
        """Stops the threads. No other method may be called afterwards."""
        ...


@runtime_checkable
class DocumentEncoder(Encoder, Protocol):
    """An Encoder of which a document's vector depends on its title and its text, not on its passage alone."""

    async def encode_documents(self, documents: Sequence[Document], deadline: Deadline) -> Iterable[Vector]:
        """Encodes one vector for each document, in their order. Raises BadInput before it encodes any of them."""
        ...


@runtime_checkable
class ExplainingEncoder(Encoder, Protocol):
    """An Encoder that returns which parts of a query matched which parts of a document."""

    async def explain(
        self, query: str, passages: Sequence[str], vectors: Sequence[Vector], deadline: Deadline
    ) -> Sequence[tuple[Match, ...]]:
        """Returns the matches of each document, the highest score first; their scores sum up to the document's.

        `vectors` are those that the store keeps of the `passages`, in their order.
        """
        ...


def passage_hashes(encoder: Encoder, documents: Iterable[Document]) -> dict[str, str]:
    """Returns by id the sha256 of what the encoder reads of each document. Equal hashes mean equal vectors."""
    apart = isinstance(encoder, DocumentEncoder)
    # No document has a NUL.
    read = {document.id: f"{document.title}\0{document.text}" if apart else document.passage for document in documents}
    return {identity: hashlib.sha256(text.encode()).hexdigest() for identity, text in read.items()}
