"""Owns the wire of vectors of documents: those that a caller sends in place of encoding, and those that are stored."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from services.contracts.base import DocumentId, Number, Wire
from services.contracts.generations import Generation
from services.contracts.lists import Items

# Bounds of one answer: 100 documents of 180 tokens of 128 dimensions are 2.3 million numbers, several megabytes.
MOST_VECTOR_IDS = 100
MOST_ANSWER_COMPONENTS = 400_000
MOST_DIMENSIONS = 65_536
MOST_TOKENS = 16_384

Row = Annotated[tuple[Number, ...], Items(1, MOST_DIMENSIONS, fail_fast=True)]
DenseValues = Annotated[Row | None, Field(exclude_if=lambda values: values is None)]
Term = Annotated[int, Field(strict=True, ge=0, lt=2**32)]
Terms = Annotated[
    Annotated[tuple[Term, ...], Items(0, MOST_DIMENSIONS, fail_fast=True)] | None,
    Field(exclude_if=lambda terms: terms is None),
]
TermWeights = Annotated[
    Annotated[tuple[Number, ...], Items(0, MOST_DIMENSIONS, fail_fast=True)] | None,
    Field(exclude_if=lambda weights: weights is None),
]
TokenRows = Annotated[
    Annotated[tuple[Row, ...], Items(1, MOST_TOKENS, fail_fast=True)] | None,
    Field(exclude_if=lambda tokens: tokens is None),
]


class DocumentVector(Wire):
    """A document's vector in one backend, by the model of this name (`model` of the backend's stamp).

    It is `dense` [dimension], or ascending `terms` [n] and their `weights` [n], or `tokens` [rows, dimension]: a row a
    token, or a passage where documents are cut.
    """

    model: Annotated[str, Field(min_length=1, max_length=256)]
    dense: DenseValues = None
    terms: Terms = None
    weights: TermWeights = None
    tokens: TokenRows = None

    @model_validator(mode="after")
    def _has_one_form(self) -> Self:
        forms = [self.dense is not None, self.terms is not None, self.tokens is not None]
        if forms.count(True) != 1 or (self.terms is None) != (self.weights is None):
            raise ValueError("must have `dense`, or `terms` and `weights`, or `tokens`")
        if self.tokens is not None and len({len(row) for row in self.tokens}) > 1:
            raise ValueError("tokens: must be rows of one length")
        return self

    @property
    def components(self) -> int:
        """How many numbers it has, and how many lists of them: the values that it adds to a body."""
        if self.tokens is not None:
            return len(self.tokens) * (1 + len(self.tokens[0]))
        return len(self.dense or ()) + 2 * len(self.terms or ())


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
