"""What requests of all dialects have in common: parts of them come back in the answer."""

from typing import Self

from pydantic import model_validator
from pydantic_core import PydanticSerializationError

from services.contracts.base import Wire


class VendorRequest(Wire):
    """Refuses lone surrogates anywhere: JSON can escape them, but no answer in UTF-8 can carry them back."""

    @model_validator(mode="after")
    def _can_come_back(self) -> Self:
        try:
            self.model_dump_json()
        except PydanticSerializationError as error:
            raise ValueError("must not contain lone surrogates") from error
        return self
