"""Owns `/embed` of Text Embeddings Inference (TEI). Its errors are those of services/dialects/tei_errors.py."""

from typing import Literal

import orjson
from fastapi import APIRouter, Response

from services.chassis.app import router
from services.chassis.errors import BadInput
from services.chassis.requests.handling import handled
from services.contracts.base import Wire
from services.dense.dialects.embedding import check_dimensions, encode_texts, lengths
from services.dense.encoder import DenseEncoder, Role, normalised
from services.dialects.tei_errors import TeiError
from services.dialects.vendor_requests import MODEL_HEADER, Texts, refuse_long, served_model


class EmbedRequest(Wire):
    """The body of a request. Texts above the model's token limit are cut; with `truncate: false` they are refused.

    `prompt_name` chooses the prefix that the model needs before the texts; without it they are passages.
    """

    inputs: Texts
    normalize: bool = True
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"
    prompt_name: Literal["query", "passage", "document"] | None = None
    dimensions: int | None = None


def tei_router(encoder: DenseEncoder) -> APIRouter:
    """Returns the routes: `POST /embed`."""
    routes = router(TeiError)

    @routes.post("/embed", response_model=list[list[float]])
    @handled("bulk", scope="search", slow=True)
    async def embed(request: EmbedRequest) -> Response:
        check_dimensions(request.dimensions, encoder)
        unit = encoder.stamp.get("normalise") != "false"
        if unit and not request.normalize:
            raise BadInput("normalize: this model's vectors have length 1; send true, or leave it out.")
        role: Role = "query" if request.prompt_name == "query" else "passage"
        if request.truncate is False:
            refuse_long(await lengths(encoder, request.inputs, role), encoder.max_tokens)
        vectors = await encode_texts(encoder, request.inputs, role)
        if request.normalize and not unit:
            vectors = normalised(vectors)
        body = orjson.dumps(list(vectors), option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(body, headers={MODEL_HEADER: served_model(encoder.stamp)}, media_type="application/json")

    return routes
