"""Owns the wire of metadata filters: trees of conditions over declared fields, and the values that these take.

Filters and values are equal in every service.
"""

import json
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, Self, Union

from pydantic import ConfigDict, Discriminator, Field, StrictBool, StrictFloat, StrictInt, Tag, model_validator

from services.contracts.base import SURROGATES, FieldName, Wire
from services.contracts.lists import Items, UnionMessage

Operand = StrictBool | StrictInt | StrictFloat | str
Operands = Annotated[
    Operand | Annotated[tuple[Operand, ...], Items(1, 256, fail_fast=True)],
    UnionMessage("must be a text, a number, true or false, or a list of 1 to 256 of these"),
]


class Condition(Wire):
    """`field op value`, which holds if one of the document's values meets it.

    eq, gt, gte, lt and lte take one value; in takes 1 to 256; exists takes true (its default) or false.
    """

    field: FieldName
    op: Literal["eq", "in", "gt", "gte", "lt", "lte", "exists"]
    value: Operands | None = None

    @model_validator(mode="after")
    def _operand_fits(self) -> Self:
        match self.op:
            case "in" if not isinstance(self.value, tuple):
                raise ValueError("op 'in' takes a list of values")
            case "eq" | "gt" | "gte" | "lt" | "lte" if self.value is None or isinstance(self.value, tuple):
                raise ValueError(f"op '{self.op}' takes one value")
            case "exists" if not (self.value is None or isinstance(self.value, bool)):
                raise ValueError("op 'exists' takes true or false")
        for operand in self.value if isinstance(self.value, tuple) else (self.value,):
            if isinstance(operand, str) and SURROGATES.search(operand):
                raise ValueError("value: must not contain lone surrogates")
        return self


# Bounds of a whole tree: engines recurse over it, and each of its conditions costs a lookup.
MOST_CONDITIONS, DEEPEST_FILTER = 32, 8


def _kind(node: object) -> str:
    """Returns the tag of a node: what names a field is a condition."""
    keys = node if isinstance(node, dict) else ()
    return "condition" if isinstance(node, Condition) or "field" in keys or "op" in keys else "filter"


Node = Annotated[
    Union[Annotated[Condition, Tag("condition")], Annotated["Filter", Tag("filter")]],  # noqa: UP007 a forward name
    Discriminator(_kind),
]
Nodes = Annotated[tuple[Node, ...], Items(1, MOST_CONDITIONS, fail_fast=True)]


class Filter(Wire):
    """A document passes when it meets `all` parts, `any` of them, or does `not` meet the one: exactly one is given.

    A part is a condition or a filter: at most 32 conditions in all, in filters at most 8 deep. A document that lacks a
    field meets no condition on it, and so every `not` of one.
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    all: Annotated[Nodes | None, Field(exclude_if=lambda parts: parts is None)] = None
    any: Annotated[Nodes | None, Field(exclude_if=lambda parts: parts is None)] = None
    not_: Annotated[
        Node | None, Field(validation_alias="not", serialization_alias="not", exclude_if=lambda part: part is None)
    ] = None

    @model_validator(mode="before")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        # Runs before validation builds it, and counts without recursion.
        if _kind(value) == "condition":
            raise ValueError('a condition stands in a list: {"all": [{"field": …, "op": …, "value": …}]}')
        level, conditions, depth = [value], 0, 0
        while level:
            filters = [node for node in level if isinstance(node, dict) and _kind(node) == "filter"]
            conditions += len(level) - len(filters)
            depth += bool(filters)
            if conditions > MOST_CONDITIONS or len(filters) > MOST_CONDITIONS or depth > DEEPEST_FILTER:
                raise ValueError(
                    f"takes at most {MOST_CONDITIONS} conditions, in filters at most {DEEPEST_FILTER} deep"
                )
            level = [part for node in filters for part in _parts(node)]
        return value

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        if [self.all, self.any, self.not_].count(None) != 2:
            raise ValueError("takes exactly one of all, any and not")
        return self


def _parts(node: dict[str, object]) -> Iterator[object]:
    for name in ("all", "any"):
        parts = node.get(name)
        if isinstance(parts, list | tuple):
            yield from parts
    if node.get("not") is not None:
        yield node["not"]


DAY_MS = 86_400_000
# Bytes of a term of Lucene's, and so of a keyword on every engine.
LONGEST_KEYWORD = 32_766
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


def keyword_of(value: Operand) -> str:
    """Returns a value as a keyword. Raises ValueError for one that is too long."""
    # true and 5 are written as in JSON, which is how Elasticsearch indexes them as keywords.
    word = value if isinstance(value, str) else json.dumps(value)
    if len(word.encode("utf-8", "surrogatepass")) > LONGEST_KEYWORD:
        raise ValueError(f"is a keyword, which has at most {LONGEST_KEYWORD:,} bytes; keep a longer text undeclared.")
    return word


def number_of(value: Operand) -> float:
    """Returns a JSON number as a double of 15 significant digits, a whole one below 2^63 as an integer.

    Raises ValueError for other values, and beyond the doubles.
    """
    if isinstance(value, bool | str):
        raise ValueError("is declared as a number; send a JSON number.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("is declared as a number, and this one is too large.")
    # Qdrant keeps payloads as JSON, whose reader changes the last bit of floats of more digits: after Edge merged its
    # segments, documents were no longer found by such numbers.
    if abs(number) >= 2**63:
        return number
    return round(number) if number.is_integer() or abs(number) >= 1e15 else float(f"{number:.15g}")


def date_span_of(value: Operand) -> tuple[float, float]:
    """Returns first and last millisecond since 1970 of a date: a day without a time is the whole day, as in
    Elasticsearch; a time without a zone is UTC. Raises ValueError for other values."""
    try:
        if not isinstance(value, str) or not _DAY.match(value):
            raise ValueError("neither a day nor a moment")
        moment = datetime.fromisoformat(value)
        aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        start = float((aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
    except (ValueError, OverflowError) as error:
        raise ValueError("is a date; send it in ISO 8601 (2024-05-31 or 2024-05-31T12:00:00Z).") from error
    return start, start + DAY_MS - 1 if _DAY.fullmatch(value) else start
