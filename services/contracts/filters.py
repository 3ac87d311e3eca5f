"""Metadata filters: a conjunction of conditions over declared fields, the same in every service."""

from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictFloat, StrictInt, model_validator

from services.contracts.base import Wire
from services.contracts.documents import FieldName

Operand = StrictBool | StrictInt | StrictFloat | str


class Condition(Wire):
    """`field op value`: eq, gte, lte take one value; in takes 1 to 256; exists takes true (its default) or false."""

    field: FieldName
    op: Literal["eq", "in", "gte", "lte", "exists"]
    value: Operand | Annotated[tuple[Operand, ...], Field(min_length=1, max_length=256)] | None = None

    @model_validator(mode="after")
    def _operand_fits(self) -> Self:
        match self.op:
            case "in" if not isinstance(self.value, tuple):
                raise ValueError("op 'in' takes a list of values")
            case "eq" | "gte" | "lte" if self.value is None or isinstance(self.value, tuple):
                raise ValueError(f"op '{self.op}' takes one value")
            case "exists" if not (self.value is None or isinstance(self.value, bool)):
                raise ValueError("op 'exists' takes true or false")
        return self


class Filter(Wire):
    """A document passes when it meets all conditions (at most 32)."""

    all: Annotated[tuple[Condition, ...], Field(min_length=1, max_length=32)]
