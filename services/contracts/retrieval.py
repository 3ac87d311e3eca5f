"""Owns the wire of one retrieval by one service."""

from collections.abc import Sequence
from operator import itemgetter, not_
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, GetCoreSchemaHandler, model_validator
from pydantic_core import CoreSchema
from pydantic_core.core_schema import (
    is_instance_schema,
    json_or_python_schema,
    no_info_after_validator_function,
    plain_serializer_function_ser_schema,
)
from typing_extensions import TypedDict  # pydantic asks for it before Python 3.12

from services.contracts.base import DEEPEST, Depth, DocumentId, FieldName, Name, QueryText, Wire
from services.contracts.documents import Document, Included
from services.contracts.filters import Filter
from services.contracts.generations import Generation
from services.contracts.lists import Items
from services.contracts.scored import Ranking, paired

# Candidates that an approximate vector search keeps while it walks its graph (HNSW: `ef`), unless a request sets it.
# On NFCorpus recall@10 was 0.990 with 128 and 0.998 with 256 (services/vectorstore/README.md).
DEFAULT_BEAM = 256
# Hits that a search fetches beyond `top` at first, to settle ties. An approximate search whose beam does not hold `top`
# and these is wider than its beam, and finds other documents.
FIRST_EXTRA = 16
Beam = Annotated[int, Field(strict=True, ge=1, le=10_000)]

ExcludedIds = Annotated[tuple[DocumentId, ...], Items(0, 10)]
# Only documents of these ids, which must pass whatever else is asked for too; None: of any id.
AmongIds = Annotated[tuple[DocumentId, ...], Items(0, DEEPEST)] | None


class RetrievalRequest(Wire):
    """Asks for the `top` best documents. `preset` and `include` are for lexical services, `exact` and `beam` are for
    vectors; the other services refuse them.

    `include`: parts of documents that come with the hits. Vectors are searched with a beam of DEFAULT_BEAM where none
    is given; an engine keeps at least as many candidates as it has to return.
    """

    query: QueryText
    top: Depth = 10
    preset: Name | None = None
    exact: bool = False
    beam: Beam | None = None
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()
    include: Annotated[tuple[Included, ...], Items(0, 3), Field(exclude_if=not_)] = ()

    @model_validator(mode="after")
    def _beam_is_used(self) -> Self:
        if self.exact and self.beam is not None:
            raise ValueError("beam: an exact search has none; leave out beam or exact")
        return self


class Sort(Wire):
    """The order of documents by a declared number or date: of several values the one that comes first counts.
    Documents without one come last, and equal ones by id."""

    field: FieldName
    order: Literal["asc", "desc"] = "asc"


class BrowseRequest(Wire):
    """Asks for the ids of the first `top` documents that pass the filter, all or those of `ids`: by `sort`, else in
    ascending order."""

    top: Depth = 10
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()
    ids: AmongIds = None
    sort: Sort | None = None


class BrowseAnswer(Wire):
    """The ids of documents, in the order asked for."""

    ids: tuple[str, ...]


class _HitOnWire(TypedDict):
    # Checked as a DocumentId on arrival: an answer has hundreds, and checks in Python would cost a tenth of a search.
    id: Annotated[str, Field(min_length=1, max_length=512)]
    score: FiniteFloat


_PAIR = itemgetter("id", "score")


def _read(hits: Sequence[_HitOnWire]) -> Ranking:
    return paired(map(_PAIR, hits))


def _written(hits: Ranking) -> list[_HitOnWire]:
    return [{"id": identity, "score": score} for identity, score in hits]


class _Hits:
    """Hits are objects on the wire, and in the process tuples, which take a quarter of the time of models."""

    def __get_pydantic_core_schema__(self, _source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        on_wire = handler.generate_schema(list[_HitOnWire])
        return json_or_python_schema(
            json_schema=no_info_after_validator_function(_read, on_wire),
            python_schema=is_instance_schema(tuple),
            serialization=plain_serializer_function_ser_schema(_written, return_schema=on_wire),
        )


WireRanking = Annotated[Ranking, _Hits()]


class RetrievalAnswer(Wire):
    """Hits best first, with scores on the scale of their service; equal scores are in ascending order of id.

    `documents`: what the request includes of the hits, where all of it fits (MOST_BESIDE_HITS_BYTES); else none.
    """

    generation: Generation
    hits: WireRanking
    documents: Annotated[tuple[Document, ...], Field(exclude_if=not_)] = ()
