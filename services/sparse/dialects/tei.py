"""Owns `/embed_sparse` of Text Embeddings Inference (TEI). Its errors are those of services/dialects/tei_errors.py."""

from typing import Literal

import orjson
from fastapi import APIRouter, Response

from services.chassis.app import router
from services.chassis.deadlines import current_deadline
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import timed
from services.contracts.base import Wire
from services.dialects.tei_errors import TeiError
from services.dialects.vendor_requests import MODEL_HEADER, Texts, refuse_long, served_model
from services.sparse.encoder import SparseEncoder
from services.storage.representation import SparseVector


class EmbedSparseRequest(Wire):
    """The body of a request. Texts above the model's token limit are cut; with `truncate: false` they are refused.

    `prompt_name`: `query` weighs the texts as queries; otherwise they are passages.
    """

    inputs: Texts
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"
    prompt_name: Literal["query", "passage", "document"] | None = None


class SparseValue(Wire):
    """A term's number and its weight."""

    index: int
    value: float


def tei_sparse_router(encoder: SparseEncoder) -> APIRouter:
    """Returns the routes: `POST /embed_sparse`."""
    routes = router(TeiError)

    @routes.post("/embed_sparse", response_model=list[list[SparseValue]])
    @handled("bulk", scope="search", slow=True)
    async def embed_sparse(request: EmbedSparseRequest) -> Response:
        deadline = current_deadline()
        if request.truncate is False:
            with timed("count"):
                refuse_long(await encoder.lengths(request.inputs, deadline), encoder.max_tokens)
        with timed("encode"):
            if request.prompt_name == "query":
                # One by one, so that searches can run in between.
                vectors = [await encoder.encode_query(text, deadline) for text in request.inputs]
            else:
                vectors = list(await encoder.encode_passages(request.inputs, deadline))
        body = orjson.dumps([_values(vector) for vector in vectors], option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(body, headers={MODEL_HEADER: served_model(encoder.stamp)}, media_type="application/json")

    return routes


def _values(vector: SparseVector) -> list[dict[str, object]]:
    terms = zip(vector.terms.tolist(), vector.weights, strict=True)
    return [{"index": term, "value": weight} for term, weight in terms]
