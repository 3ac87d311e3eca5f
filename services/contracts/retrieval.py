"""One retrieval by one service."""

from typing import Annotated

from pydantic import FiniteFloat

from services.contracts.base import Depth, DocumentId, Generation, Name, QueryText, Wire
from services.contracts.filters import Filter
from services.contracts.lists import Items

ExcludedIds = Annotated[tuple[DocumentId, ...], Items(0, 10)]


class RetrievalRequest(Wire):
    """The `top` best documents for a query. Presets are lexical, `exact` is for vectors; elsewhere they are refused."""

    query: QueryText
    top: Depth = 10
    preset: Name | None = None
    exact: bool = False
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()


class RetrievedHit(Wire):
    """A document and its score, on the scale of the service that gave it."""

    id: DocumentId
    score: FiniteFloat


class RetrievalAnswer(Wire):
    """Hits best first; equal scores are in ascending order of id."""

    generation: Generation
    hits: tuple[RetrievedHit, ...]
