"""Owns OpenAI's `/v1/embeddings`. Its errors are those of services/dialects/openai.py."""

import base64
from typing import Literal

import numpy as np
import orjson
from fastapi import APIRouter, Response

from services.chassis.app import router
from services.chassis.requests.handling import handled
from services.contracts.base import Count, Wire
from services.dense.dialects.embedding import check_dimensions, encode_texts, lengths
from services.dense.encoder import DenseEncoder, Role, Vectors
from services.dialects.openai import OpenAIError
from services.dialects.vendor_requests import (
    MODEL_HEADER,
    Texts,
    TokenLimit,
    check_requested_model,
    check_truncation,
    served_model,
)

# The number of texts that were cut at the model's token limit. OpenAI's answer has no field for it.
TRUNCATED_HEADER = "x-truncated-inputs"


class EmbeddingsRequest(Wire):
    """The body of a request. `user` has no effect. `input_type` is our addition, with the values of Cohere and Voyage:
    some models need a prefix before queries, OpenAI's do not. Without it the texts are passages. `truncation` and
    `truncate_prompt_tokens` (Jina, vLLM) may ask for the cut that happens anyway."""

    input: Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    user: str | None = None
    truncation: bool | None = None
    truncate_prompt_tokens: TokenLimit | None = None
    input_type: Literal["query", "search_query", "passage", "document", "search_document"] | None = None


class Embedding(Wire):
    """The vector of one text: numbers, or base64 of little-endian fp32."""

    object: Literal["embedding"]
    index: Count
    embedding: tuple[float, ...] | str


class OpenAIUsage(Wire):
    """The number of tokens that the model read, special tokens included."""

    prompt_tokens: Count
    total_tokens: Count


class EmbeddingsAnswer(Wire):
    """One vector for each text, in their order. `model` is the served model, whatever the request named."""

    object: Literal["list"]
    data: tuple[Embedding, ...]
    model: str
    usage: OpenAIUsage


def openai_router(encoder: DenseEncoder) -> APIRouter:
    """Returns the routes: `POST /v1/embeddings`."""
    routes = router(OpenAIError)

    @routes.post("/v1/embeddings", response_model=EmbeddingsAnswer)
    @handled("bulk", scope="search", slow=True)
    async def embeddings(request: EmbeddingsRequest) -> Response:
        model = served_model(encoder.stamp)
        check_requested_model(request.model, model)
        check_dimensions(request.dimensions, encoder)
        check_truncation(request.truncation, request.truncate_prompt_tokens, encoder.max_tokens)
        role: Role = "query" if request.input_type in ("query", "search_query") else "passage"
        vectors = await encode_texts(encoder, request.input, role)
        long = await lengths(encoder, request.input, role)
        cut = [min(length, encoder.max_tokens) for length in long]
        headers = {MODEL_HEADER: model, TRUNCATED_HEADER: str(sum(map(int.__gt__, long, cut)))}
        return Response(_body(request, vectors, model, sum(cut)), headers=headers, media_type="application/json")

    return routes


def _body(request: EmbeddingsRequest, vectors: Vectors, model: str, tokens: int) -> bytes:
    # Without pydantic, which would convert every component to a Python float, twice, on the event loop.
    rows = [_base64(row) for row in vectors] if request.encoding_format == "base64" else list(vectors)
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
