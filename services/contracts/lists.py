"""Bounds the length of lists, and the errors of unions, before their items are validated."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Items:
    """Bounds the number of items of a tuple before they are validated.

    Pydantic's own `max_length` first collects the errors of all items (65,000 of them take 0.4 s), and its `min_length`
    calls a list with faulty items too short. `fail_fast` reports only the first faulty item: for items that can have
    many errors each.
    """

    least: int
    most: int
    fail_fast: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "tuple", schema["type"]
        if self.fail_fast:
            schema = {**schema, "fail_fast": True}
        return core_schema.no_info_before_validator_function(self._checked, schema)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "minItems": self.least, "maxItems": self.most}

    def _checked(self, value: object) -> object:
        if isinstance(value, list | tuple) and not self.least <= len(value) <= self.most:
            raise ValueError(f"must have {self.least} to {self.most} items, not {len(value)}")
        return value


@dataclass(frozen=True, slots=True)
class UnionMessage:
    """Replaces the errors of a union, one for each member, by one message."""

    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "union", schema["type"]
        return {**schema, "custom_error_type": "none_of_these", "custom_error_message": self.message}
