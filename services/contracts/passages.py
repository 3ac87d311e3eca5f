"""Owns the wire of cutting long documents into passages, of which the best one counts (MaxP)."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from services.contracts.base import Wire

LEAST_TOKENS = 16
MOST_TOKENS = 8_192


class Passages(Wire):
    """Passages of at most `tokens` tokens of the model, title included; neighbours have `overlap` tokens in common.

    `overlap` is at most half of `tokens`, so that passages together have at most about twice the tokens of the text.
    """

    tokens: Annotated[int, Field(strict=True, ge=LEAST_TOKENS, le=MOST_TOKENS)]
    overlap: Annotated[int, Field(strict=True, ge=0)] = 0

    @model_validator(mode="after")
    def _overlap_is_at_most_half(self) -> Self:
        if self.overlap > self.tokens // 2:
            raise ValueError(
                f"overlap: 0 to {self.tokens // 2} is allowed, half of tokens ({self.tokens}), not {self.overlap}"
            )
        return self
