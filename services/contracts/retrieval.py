"""Owns the wire of one retrieval by one service."""

from typing import Annotated, Self

from pydantic import Field, FiniteFloat, model_validator

from services.contracts.base import Depth, DocumentId, Name, QueryText, Wire
from services.contracts.filters import Filter
from services.contracts.generations import Generation
from services.contracts.lists import Items

# Candidates that an approximate vector search keeps while it walks its graph (HNSW: `ef`), unless it is told a number.
# On NFCorpus recall@10 was 0.990 with 128 and 0.998 with 256 (services/vectorstore/README.md).
DEFAULT_BEAM = 256
Beam = Annotated[int, Field(strict=True, ge=1, le=10_000)]

ExcludedIds = Annotated[tuple[DocumentId, ...], Items(0, 10)]


class RetrievalRequest(Wire):
    """Asks for the `top` best documents. `preset` is for lexical services, `exact` and `beam` are for vectors.

    The other services refuse them. Vectors are searched with a beam of DEFAULT_BEAM where none is given; an engine
    keeps at least as many candidates as it has to return.
    """

    query: QueryText
    top: Depth = 10
    preset: Name | None = None
    exact: bool = False
    beam: Beam | None = None
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()

    @model_validator(mode="after")
    def _beam_is_used(self) -> Self:
        if self.exact and self.beam is not None:
            raise ValueError("beam: an exact search has none; leave out beam or exact")
        return self


class RetrievedHit(Wire):
    """A document and its score, on the scale of its service."""

    # Checked as an id (DocumentId) where it came in. An answer has hundreds of them, so checks in Python would cost a
    # tenth of a search.
    id: Annotated[str, Field(min_length=1, max_length=512)]
    score: FiniteFloat


class RetrievalAnswer(Wire):
    """Hits best first; equal scores are in ascending order of id."""

    generation: Generation
    hits: tuple[RetrievedHit, ...]
