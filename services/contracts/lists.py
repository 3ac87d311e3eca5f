"""Bounds of lists and unions on the wire that hold before anything in them is validated."""

from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


@dataclass(frozen=True, slots=True)
class Items:
    """How many items a tuple may have, counted before they are looked at.

    Pydantic's own `max_length` collects the faults of all items first (65,000 of them take 0.4 s), and its `min_length`
    calls a list too short whose items are faulty. `first_fault` is for items that can have many faults each: only the
    first item at fault is told.
    """

    least: int
    most: int
    first_fault: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "tuple", schema["type"]
        if self.first_fault:
            schema = {**schema, "fail_fast": True}
        return core_schema.no_info_before_validator_function(self._checked, schema)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {**handler(schema), "minItems": self.least, "maxItems": self.most}

    def _checked(self, value: object) -> object:
        if isinstance(value, list | tuple) and not self.least <= len(value) <= self.most:
            raise ValueError(f"must have {self.least} to {self.most} items, not {len(value)}")
        return value


@dataclass(frozen=True, slots=True)
class OneFault:
    """What a union says of a value that fits none of its members, in place of one fault a member."""

    message: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        schema = handler(source)
        assert schema["type"] == "union", schema["type"]
        return {**schema, "custom_error_type": "none_of_these", "custom_error_message": self.message}
