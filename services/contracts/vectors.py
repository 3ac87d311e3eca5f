"""Owns the wire of dense vectors of documents: sent by callers in place of encoding, and stored."""

from typing import Annotated, Any

from pydantic import Field, model_validator

from services.contracts.base import DocumentId, Number, Wire
from services.contracts.generations import Generation
from services.contracts.lists import Items

# Bounds of one answer: 100 vectors of 4,000 dimensions, several megabytes.
MOST_VECTOR_IDS = 100
MOST_ANSWER_COMPONENTS = 400_000
MOST_DIMENSIONS = 65_536


class DocumentVector(Wire):
    """A document's vector in one backend, by the model of this name (`model` of the backend's stamp): [dimension]."""

    model: Annotated[str, Field(min_length=1, max_length=256)]
    dense: Annotated[tuple[Number, ...], Items(1, MOST_DIMENSIONS, fail_fast=True)]

    @model_validator(mode="before")
    @classmethod
    def _is_dense(cls, value: Any) -> Any:
        if isinstance(value, dict) and not {"terms", "weights", "tokens"}.isdisjoint(value):
            raise ValueError(
                "only dense vectors are taken: leave out sparse and token vectors (in an export, delete them from its "
                "lines, or export without --vectors); the service encodes the document"
            )
        return value


class VectorsRequest(Wire):
    """Asks a vector service for the vectors that it has stored of documents."""

    ids: Annotated[tuple[DocumentId, ...], Items(1, MOST_VECTOR_IDS)]


class StoredVector(Wire):
    """The vector of a document, and the `content_hash` of the document that it is of."""

    id: str
    content_hash: str
    vector: DocumentVector


class VectorsAnswer(Wire):
    """The vectors found; ids without a document are left out."""

    generation: Generation
    vectors: tuple[StoredVector, ...]
