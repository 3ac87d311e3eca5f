"""Owns what clients of Jina and vLLM may ask of long texts, which are cut at the model's limit anyway."""

from typing import Annotated

from pydantic import Field

from services.chassis.errors import BadInput

# -1 stands for the model's limit.
TokenLimit = Annotated[int, Field(strict=True, ge=-1)]


def check_truncation(truncation: bool | None, tokens: TokenLimit | None, max_tokens: int) -> None:
    """Raises BadInput where `truncation` or `truncate_prompt_tokens` asks for another cut than at `max_tokens`."""
    if truncation is False:
        raise BadInput(f"truncation: texts are cut at {max_tokens} tokens here; send true, or leave it out.")
    if tokens is not None and -1 < tokens < max_tokens:
        raise BadInput(
            f"truncate_prompt_tokens: must be -1 or at least {max_tokens}, where this model cuts anyway; leave it out."
        )
