"""Owns the check that all dialects' requests need, because their answers repeat parts of them."""

from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticSerializationError

from services.contracts.base import Wire


class VendorRequest(Wire):
    """Base of the requests. Refuses lone surrogates: JSON can escape them, but an answer in UTF-8 cannot hold them."""

    @model_validator(mode="after")
    def _refuse_lone_surrogates(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError("must not contain lone surrogates") from error
        return self
