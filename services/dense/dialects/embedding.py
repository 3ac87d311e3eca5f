"""Encodes the texts of a request and names the model, for both dialects. Does not know a vendor's answer."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator

from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput
from services.chassis.requests.telemetry import timed
from services.contracts.base import Text
from services.contracts.lists import Items
from services.dense.encoder import DenseEncoder, Role, Vectors


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


def served_model(encoder: DenseEncoder) -> str:
    """Returns the model's name and the first 12 hexadecimal digits of its weights' sha256, as `name@hash`."""
    return f"{encoder.stamp['model']}@{encoder.stamp['weights_sha256'][:12]}"


def check_dimensions(asked: int | None, encoder: DenseEncoder) -> None:
    """Raises BadInput for another dimension than the model's: no model here was trained for shortened vectors."""
    given = encoder.representation.dimension
    if asked is not None and asked != given:
        raise BadInput(f"dimensions: this model gives {given}; send that, or leave it out.")


async def encode_texts(encoder: DenseEncoder, texts: Sequence[str], role: Role) -> Vectors:
    """Encodes one row for each text: fp32 [texts, dimension]. Queries are encoded one by one, so that searches can
    run in between."""
    with timed("encode"):
        if role == "passage":
            return await encoder.encode_passages(texts, current_deadline())
        return np.stack([await encoder.encode_query(text, current_deadline()) for text in texts])


async def lengths(encoder: DenseEncoder, texts: Sequence[str], role: Role) -> tuple[int, ...]:
    """Counts the tokens of each text, before truncation."""
    with timed("count"):
        return await encoder.lengths(texts, role, current_deadline())
