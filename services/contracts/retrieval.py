"""Owns the wire of one retrieval by one service."""

from typing import Annotated

from pydantic import FiniteFloat

from services.contracts.base import Depth, DocumentId, Name, QueryText, Wire
from services.contracts.filters import Filter
from services.contracts.generations import Generation
from services.contracts.lists import Items

ExcludedIds = Annotated[tuple[DocumentId, ...], Items(0, 10)]


class RetrievalRequest(Wire):
    """Asks for the `top` best documents. `preset` is for lexical services, `exact` for vectors; others refuse them."""

    query: QueryText
    top: Depth = 10
    preset: Name | None = None
    exact: bool = False
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()


class RetrievedHit(Wire):
    """A document and its score, on the scale of its service."""

    id: DocumentId
    score: FiniteFloat


class RetrievalAnswer(Wire):
    """Hits best first; equal scores are in ascending order of id."""

    generation: Generation
    hits: tuple[RetrievedHit, ...]
