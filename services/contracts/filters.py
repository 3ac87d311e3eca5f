"""Owns the wire of metadata filters: trees of conditions over declared fields, equal in every service."""

from collections.abc import Iterator
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
        Node | None,
        Field(validation_alias="not", serialization_alias="not", exclude_if=lambda part: part is None),
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
