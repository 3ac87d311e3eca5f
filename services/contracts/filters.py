"""Owns the wire of metadata filters: a conjunction of conditions over declared fields, equal in every service."""

from typing import Annotated, Literal, Self

from pydantic import StrictBool, StrictFloat, StrictInt, model_validator

from services.contracts.base import SURROGATES, FieldName, Wire
from services.contracts.lists import Items, UnionMessage

Operand = StrictBool | StrictInt | StrictFloat | str
Operands = Annotated[
    Operand | Annotated[tuple[Operand, ...], Items(1, 256, fail_fast=True)],
    UnionMessage("must be a text, a number, true or false, or a list of 1 to 256 of these"),
]


class Condition(Wire):
    """`field op value`: eq, gte, lte take one value; in takes 1 to 256; exists takes true (its default) or false."""

    field: FieldName
    op: Literal["eq", "in", "gte", "lte", "exists"]
    value: Operands | None = None

    @model_validator(mode="after")
    def _operand_fits(self) -> Self:
        match self.op:
            case "in" if not isinstance(self.value, tuple):
                raise ValueError("op 'in' takes a list of values")
            case "eq" | "gte" | "lte" if self.value is None or isinstance(self.value, tuple):
                raise ValueError(f"op '{self.op}' takes one value")
            case "exists" if not (self.value is None or isinstance(self.value, bool)):
                raise ValueError("op 'exists' takes true or false")
        for operand in self.value if isinstance(self.value, tuple) else (self.value,):
            if isinstance(operand, str) and SURROGATES.search(operand):
                raise ValueError("value: must not contain lone surrogates")
        return self


class Filter(Wire):
    """A document passes when it meets all conditions (at most 32)."""

    all: Annotated[tuple[Condition, ...], Items(1, 32)]
