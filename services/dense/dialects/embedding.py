"""Encodes the texts of a request, for both dialects. Does not know a vendor's answer."""

from collections.abc import Sequence

import numpy as np

from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput
from services.chassis.requests.telemetry import timed
from services.dense.encoder import DenseEncoder, Role, Vectors


def check_dimensions(requested: int | None, encoder: DenseEncoder) -> None:
    """Raises BadInput for another dimension than the model's: no model here was trained for shortened vectors."""
    given = encoder.representation.dimension
    if requested is not None and requested != given:
        raise BadInput(f"dimensions: this model gives {given}; send that, or leave it out.")


async def encode_texts(encoder: DenseEncoder, texts: Sequence[str], role: Role) -> Vectors:
    """Encodes one row per text: fp32 [texts, dimension]. Encodes queries singly, so that searches run in between."""
    with timed("encode"):
        if role == "passage":
            return await encoder.encode_passages(texts, current_deadline())
        return np.stack([await encoder.encode_query(text, current_deadline()) for text in texts])


async def lengths(encoder: DenseEncoder, texts: Sequence[str], role: Role) -> tuple[int, ...]:
    """Counts the tokens of each text, before truncation."""
    with timed("count"):
        return await encoder.lengths(texts, role, current_deadline())
