"""Owns the wire of matches: what a search asks to be counted, and the counts."""

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, StrictFloat, StrictInt, model_validator

from services.contracts.base import Count, FieldName, Name, OptionalQuery, Text, Wire
from services.contracts.filters import Filter
from services.contracts.lists import Items, UnionMessage
from services.contracts.retrieval import AmongIds, ExcludedIds

MOST_FACETS = 16
# Of a facet: Qdrant Edge counts each range on its own.
MOST_RANGES = 16
MOST_VALUES = 1_000
DEFAULT_VALUES = 10

Bound = Annotated[StrictInt | StrictFloat | Text, UnionMessage("must be a number, or a date as text (2024-05-31)")]


class Range(Wire):
    """Numbers or dates from `from` on and below `to`; without one of them the range is open."""

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    from_: Annotated[Bound | None, Field(alias="from")] = None
    to: Bound | None = None

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        if self.from_ is None and self.to is None:
            raise ValueError("must have from, to or both")
        return self


class Facet(Wire):
    """Counts documents by a declared field: the `top` most frequent values of a keyword (10), or `ranges` of a number
    or date. A document counts once for each of its values, or for each range that one of them lies in."""

    field: FieldName
    top: Annotated[int, Field(strict=True, ge=1, le=MOST_VALUES)] = DEFAULT_VALUES
    ranges: Annotated[tuple[Range, ...], Items(1, MOST_RANGES)] | None = None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if self.ranges is not None and self.top != DEFAULT_VALUES:
            raise ValueError("top is for values; leave out top or ranges")
        return self


def _of_different_fields(facets: tuple[Facet, ...]) -> tuple[Facet, ...]:
    fields = [facet.field for facet in facets]
    if twice := [field for field in fields if fields.count(field) > 1]:
        raise ValueError(f"{twice[0]} is there twice; ask for one facet of a field")
    return facets


Facets = Annotated[tuple[Facet, ...], Items(0, MOST_FACETS), AfterValidator(_of_different_fields)]


class CountRequest(Wire):
    """Counts the documents that pass the filter and share a word with the query by a preset (without a query: all that
    pass), all or those of `ids`: by `facets`, and with `total` all together."""

    query: OptionalQuery = ""
    preset: Name | None = None
    filter: Filter | None = None
    exclude_ids: ExcludedIds = ()
    ids: AmongIds = None
    facets: Facets = ()
    total: bool = False


class ValueCount(Wire):
    """How many documents have a value."""

    value: str
    count: Count


class RangeCount(Range):
    """How many documents have a value in a range."""

    count: Count


class FacetCounts(Wire):
    """The counts of a facet: of values the highest first, equal ones by value; of ranges in the order asked for."""

    values: tuple[ValueCount, ...] | None = None
    ranges: tuple[RangeCount, ...] | None = None


class Matches(Wire):
    """Counts of documents, those that were asked for: `total`, and `facets` by field.

    `relation`: of "all" that match, or of the "candidates" of the pipeline, at most 1,000, which all pages together
    have.
    """

    relation: Literal["all", "candidates"] = "all"
    total: Count | None = None
    facets: dict[str, FacetCounts] | None = None
