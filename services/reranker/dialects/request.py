"""Owns the check that all dialects' requests need, because their answers repeat parts of them."""

from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticSerializationError, to_json

from services.contracts.base import Wire


class VendorRequest(Wire):
    """Base of the requests. Refuses lone surrogates: JSON can escape them, but an answer in UTF-8 cannot hold them."""

    @model_validator(mode="after")
    def _refuse_lone_surrogates(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError(f"{self._faulty_place()}: must not contain lone surrogates") from error
        return self

    def _faulty_place(self) -> str:
        for name, value in self:
            for place, item in enumerate(value) if isinstance(value, tuple) else [(None, value)]:
                try:
                    to_json(item)
                except PydanticSerializationError:
                    return name if place is None else f"{name}.{place}"
        return "body"
