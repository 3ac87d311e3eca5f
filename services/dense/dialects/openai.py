"""OpenAI's `/v1/embeddings`."""

import base64
from typing import Literal

import numpy as np
import orjson
from fastapi import APIRouter, Response

from services.chassis.app import router
from services.chassis.handling import handled
from services.chassis.served_model import MODEL_HEADER, check_asked
from services.chassis.vendor_errors import OpenAIError
from services.contracts.base import Count, Wire
from services.dense.dialects.embedding import Texts, check_dimensions, embedded, lengths, served_model
from services.dense.encoder import DenseEncoder, Role, Vectors

# How many texts were longer than the model reads, and were cut at their end: OpenAI's answer has no place for it.
TRUNCATED_HEADER = "x-truncated-inputs"


class EmbeddingsRequest(Wire):
    """`user` changes nothing. `input_type` is ours, in the words of Cohere and Voyage: OpenAI's models know no roles,
    others put a prefix before queries; without it the texts are passages."""

    input: Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None
    input_type: Literal["query", "search_query", "passage", "document", "search_document"] | None = None


class Embedding(Wire):
    """A text's vector: numbers, or base64 of little-endian fp32."""

    object: Literal["embedding"]
    index: Count
    embedding: tuple[float, ...] | str


class OpenAIUsage(Wire):
    """Tokens that the model read, its special ones among them."""

    prompt_tokens: Count
    total_tokens: Count


class EmbeddingsAnswer(Wire):
    """One vector a text, in their order; `model` is the one that made them, whatever name was asked for."""

    object: Literal["list"]
    data: tuple[Embedding, ...]
    model: str
    usage: OpenAIUsage


def openai_router(encoder: DenseEncoder) -> APIRouter:
    """`POST /v1/embeddings`."""
    routes = router(OpenAIError)

    @routes.post("/v1/embeddings", response_model=EmbeddingsAnswer)
    @handled(slow=True)
    async def embeddings(asked: EmbeddingsRequest) -> Response:
        model = served_model(encoder)
        check_asked(asked.model, model)
        check_dimensions(asked.dimensions, encoder)
        role: Role = "query" if asked.input_type in ("query", "search_query") else "passage"
        vectors = await embedded(encoder, asked.input, role)
        long = await lengths(encoder, asked.input, role)
        cut = [min(length, encoder.max_tokens) for length in long]
        headers = {MODEL_HEADER: model, TRUNCATED_HEADER: str(sum(map(int.__gt__, long, cut)))}
        return Response(_body(asked, vectors, model, sum(cut)), headers=headers, media_type="application/json")

    return routes


def _body(asked: EmbeddingsRequest, vectors: Vectors, model: str, tokens: int) -> bytes:
    # Past pydantic: it would turn every component into a Python float, twice, on the event loop.
    rows = [_base64(row) for row in vectors] if asked.encoding_format == "base64" else list(vectors)
    return orjson.dumps(
        {
            "object": "list",
            "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
            "model": model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        },
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def _base64(row: Vectors) -> str:
    return base64.b64encode(row.astype(np.dtype("<f4")).tobytes()).decode()
