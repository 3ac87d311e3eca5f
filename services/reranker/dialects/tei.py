"""Owns `/rerank` of Text Embeddings Inference (TEI). Its errors are those of services/dialects/tei_errors.py."""

from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from pydantic import FiniteFloat

from services.chassis.app import router
from services.chassis.requests.handling import handled
from services.contracts.base import Count, QueryText, Text, Wire
from services.contracts.lists import Items
from services.dialects.tei_errors import TeiError
from services.dialects.vendor_requests import MODEL_HEADER, refuse_long
from services.reranker.dialects.ranking import VendorRequest, lengths, rank
from services.reranker.scorer import Scorer


class TeiRerank(VendorRequest):
    """The body of a request. `raw_scores` asks for the model's own scores (those of `/v1/score`), not those in [0, 1].

    Texts above the model's token limit are cut at their end; with `truncate: false` they are refused.
    """

    query: QueryText
    texts: Annotated[tuple[Text, ...], Items(1, 1_000)]
    raw_scores: bool = False
    return_text: bool = False
    truncate: bool | None = None
    truncation_direction: Literal["right", "Right"] = "right"


class Rank(Wire):
    """The score of one text. `index` is its position in the request; `text` is set if `return_text` is true."""

    index: Count
    score: FiniteFloat
    text: str | None = None


def tei_router(scorer: Scorer) -> APIRouter:
    """Returns the routes: `POST /rerank`."""
    routes = router(TeiError)

    @routes.post("/rerank", response_model_exclude_none=True)
    @handled("own", scope="search", slow=True)
    async def rerank(request: TeiRerank, response: Response, received: Request) -> list[Rank]:
        if request.truncate is False:
            counts = await lengths(scorer, request.query, request.texts)
            refuse_long(counts, scorer.max_tokens, "texts", "tokens with the query")
        ranked = await rank(received, scorer, request.query, request.texts)
        response.headers[MODEL_HEADER] = scorer.model
        return [
            Rank(
                index=result.index,
                score=result.score if request.raw_scores else result.relevance,
                text=request.texts[result.index] if request.return_text else None,
            )
            for result in ranked
        ]

    return routes
