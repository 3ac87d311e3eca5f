"""Converts metadata fields and filters to values that every engine compares alike. Pure.

Keywords become strings, numbers floats of 15 significant digits (whole ones below 2^63 integers), dates milliseconds
since 1970 in UTC (also floats): an engine then needs only equality of strings, ranges of floats, and presence.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from services.chassis.errors import BadInput
from services.contracts.collections import FieldKind
from services.contracts.documents import MetadataValue
from services.contracts.filters import Condition, Filter, Node, Operand, date_span_of, keyword_of, number_of

FieldValue = tuple[str, ...] | tuple[float, ...]
Declared = Mapping[str, FieldKind]
# By gt, gte, lt or lte, which every engine has by these names; a side without one is open.
Bounds = Mapping[str, float]
Converted = TypeVar("Converted")


@dataclass(frozen=True, slots=True)
class OneOf:
    """Requires that the keyword field has one of these values."""

    field: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Within:
    """Requires that the number or date field lies in one of these ranges."""

    field: str
    ranges: tuple[Bounds, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """Requires that the field has a value, or has none."""

    field: str
    present: bool


@dataclass(frozen=True, slots=True)
class AllOf:
    """Requires all parts."""

    parts: tuple["Requirement", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Requires at least one of the parts."""

    parts: tuple["Requirement", ...]


@dataclass(frozen=True, slots=True)
class NoneOf:
    """Requires that the part is not met."""

    part: "Requirement"


Requirement = OneOf | Within | Exists | AllOf | AnyOf | NoneOf


def fields_of(metadata: Mapping[str, MetadataValue], declared: Declared) -> dict[str, FieldValue]:
    """Returns the declared fields of a document's metadata. Only the document store keeps the others.

    Raises BadInput naming the field if a value is not of the declared kind.
    """
    fields: dict[str, FieldValue] = {}
    for field, kind in declared.items():
        if field not in metadata:
            continue
        value = metadata[field]
        values: tuple[Operand, ...] = value if isinstance(value, tuple) else (value,)
        if not values:
            continue  # an empty list is no value, as in Elasticsearch
        match kind:
            case "keyword":
                fields[field] = tuple(_as(keyword_of, operand, field) for operand in values)
            case "number":
                fields[field] = tuple(_as(number_of, operand, field) for operand in values)
            case "date":
                fields[field] = tuple(_as(date_span_of, operand, field)[0] for operand in values)
    return fields


def requirements_of(wanted: Filter | None, declared: Declared) -> tuple[Requirement, ...]:
    """Converts a filter of the wire to what a document must meet, all of it.

    Raises BadInput for an undeclared field or an operand that does not fit it.
    """
    if wanted is None:
        return ()
    required = _requirement(wanted, declared)
    return required.parts if isinstance(required, AllOf) else (required,)


def _requirement(node: Node, declared: Declared) -> Requirement:
    if isinstance(node, Condition):
        return _of_condition(node, declared)
    if node.not_ is not None:
        return NoneOf(_requirement(node.not_, declared))
    parts = tuple(_requirement(part, declared) for part in node.all or node.any or ())
    return AllOf(parts) if node.all else AnyOf(parts)


def _of_condition(condition: Condition, declared: Declared) -> Requirement:
    field, value = condition.field, condition.value
    kind = kind_of(field, declared, "filter")
    if condition.op == "exists":
        return Exists(field, present=value is None or value is True)
    operands = value if isinstance(value, tuple) else (value,)
    given = tuple(operand for operand in operands if operand is not None)
    if kind == "keyword":
        if condition.op not in ("eq", "in"):
            raise BadInput(
                f"filter: {condition.op} compares numbers and dates, and {field} is a keyword, which takes eq, in and "
                "exists."
            )
        return OneOf(field, tuple(_as(keyword_of, operand, field) for operand in given))
    spans = [_operand_span(operand, field, kind) for operand in given]
    if condition.op in ("eq", "in"):
        return Within(field, tuple({"gte": first, "lte": last} for first, last in spans))
    first, last = spans[0]
    return Within(field, ({condition.op: last if condition.op in ("gt", "lte") else first},))


def half_open(field: str, kind: FieldKind, start: Operand | None, end: Operand | None) -> Within:
    """Returns what a number or date from `start` on and below `end` meets. Raises BadInput for a bound that does not
    fit the field, or bounds in another order."""
    given = [(name, bound) for name, bound in (("gte", start), ("lt", end)) if bound is not None]
    bounds = {name: _operand_span(bound, field, kind)[0] for name, bound in given}
    if len(bounds) == 2 and bounds["gte"] >= bounds["lt"]:
        raise BadInput(f"{field}: a range has to begin below its end.")
    return Within(field, (bounds,))


def kind_of(field: str, declared: Declared, asking: str) -> FieldKind:
    """Returns the kind of a declared field. Raises BadInput naming the declared ones; `asking` is a request's part."""
    if field not in declared:
        known = ", ".join(sorted(declared)) or "none"
        raise BadInput(f"{asking}: the field {field} is not declared for this collection; declared are: {known}.")
    return declared[field]


def expect_sortable(field: str, declared: Declared) -> None:
    """Raises BadInput unless it is a declared number or date."""
    if kind_of(field, declared, "sort") == "keyword":
        raise BadInput(f"sort: {field} is a keyword; documents can be sorted by a number or a date.")


def _operand_span(value: Operand, field: str, kind: FieldKind) -> tuple[float, float]:
    """Returns the least and the greatest number that an operand stands for: they differ of a day."""
    if kind == "date":
        return _as(date_span_of, value, field)
    number = _as(number_of, value, field)
    if isinstance(value, int) and number != value:
        # Compared as doubles, it would equal its neighbours, and a deletion would remove theirs.
        raise BadInput(f"{field}: an integer beyond 2^53 is not exact; declare the field as a keyword.")
    return number, number


def _as(convert: Callable[[Operand], Converted], value: Operand, field: str) -> Converted:
    try:
        return convert(value)
    except ValueError as error:
        raise BadInput(f"{field} {error}") from error
