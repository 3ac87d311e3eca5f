"""Owns the texts that a client of an embedding route sends, and what a request may ask of them."""

from collections.abc import Mapping, Sequence
from typing import Annotated

from pydantic import BeforeValidator

from services.chassis.errors import BodyTooLarge
from services.contracts.base import Text
from services.contracts.lists import Items


def _as_texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _as_text(value: object) -> object:
    ids = value if isinstance(value, list) and value else [value]
    if all(type(one) is int for one in ids):
        raise ValueError("token ids are another tokenizer's than this model's; send texts")
    if not isinstance(value, str):
        raise ValueError("must be a text")
    if not value:
        raise ValueError("an empty text has no meaning to embed; leave it out")
    return value


# A text or a list of texts; OpenAI accepts as many.
Texts = Annotated[
    tuple[Annotated[Text, BeforeValidator(_as_text)], ...],
    Items(1, 2_048, fail_fast=True),
    BeforeValidator(_as_texts),
]


def served_model(stamp: Mapping[str, str]) -> str:
    """Returns the name of an encoder's model and the first 12 digits of its weights' sha256, as `name@hash`."""
    return f"{stamp['model']}@{stamp['weights_sha256'][:12]}"


def refuse_long(lengths: Sequence[int], max_tokens: int) -> None:
    """Raises BodyTooLarge (413, as TEI does) if the model would cut a text; `lengths` are in tokens."""
    for place, length in enumerate(lengths):
        if length > max_tokens:
            raise BodyTooLarge(
                f"inputs.{place}: has {length} tokens and the model reads {max_tokens}; send less, or truncate: true."
            )
