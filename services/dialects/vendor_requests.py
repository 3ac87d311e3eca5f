"""Checks the texts, model and truncation that a vendor's client requests."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from services.chassis.errors import BadInput, BodyTooLarge, UnknownModel
from services.contracts.base import Text
from services.contracts.lists import Items

MODEL_HEADER = "x-model"


def check_requested_model(requested: str | None, served: str) -> None:
    """Raises UnknownModel if the requested name pins other weights than those `served` (`name@hash`)."""
    if requested is not None and "@" in requested and requested != served:
        raise UnknownModel(f"model: this process serves {served} and nothing else; send that name, or one without @.")


def is_served(requested: str | None, served: str) -> bool:
    """Returns whether the requested name, if any, is that of the served model."""
    return requested is None or requested in (served, served.partition("@")[0])


def _as_texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_text(value: object) -> object:
    ids = value if isinstance(value, list) and value else [value]
    if all(type(token) is int for token in ids):
        raise ValueError("token ids are another tokenizer's than this model's; send texts")
    if not isinstance(value, str):
        raise ValueError("must be a text")
    if not value:
        raise ValueError("an empty text has no meaning to embed; leave it out")
    return value


# A text or a list of texts; OpenAI accepts as many.
Texts = Annotated[
    tuple[Annotated[Text, BeforeValidator(_as_text)], ...], Items(1, 2_048, fail_fast=True), BeforeValidator(_as_texts)
]


def served_model(stamp: Mapping[str, str]) -> str:
    """Returns the name of an encoder's model and the first 12 digits of its weights' sha256, as `name@hash`."""
    return f"{stamp['model']}@{stamp['weights_sha256'][:12]}"


def refuse_long(lengths: Sequence[int], max_tokens: int, field: str = "inputs", counted: str = "tokens") -> None:
    """Raises BodyTooLarge (413, as TEI does) if the model would cut a text of the field; `lengths` are in tokens."""
    for place, length in enumerate(lengths):
        if length > max_tokens:
            raise BodyTooLarge(
                f"{field}.{place}: has {length} {counted}, the model reads {max_tokens}; send less, or truncate: true."
            )


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
