"""Owns Cohere's `/v2/rerank`, and `/v1/rerank` as a superset that clients of Cohere v1 and of Jina both accept.

An option that is not supported is refused by name. An option that has no effect here is accepted, and documented below.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import BeforeValidator, Field, FiniteFloat, JsonValue

from services.chassis.app import router
from services.chassis.errors import BadInput
from services.chassis.requests.handling import handled
from services.chassis.requests.telemetry import request_id
from services.contracts.base import Count, QueryText, Text, Wire
from services.contracts.lists import Items
from services.contracts.problem import Problem
from services.dialects.vendor_requests import (
    MODEL_HEADER,
    TokenLimit,
    check_requested_model,
    check_truncation,
    is_served,
)
from services.reranker.dialects.ranking import RankedText, VendorRequest, lengths, rank
from services.reranker.scorer import Scorer

# Cohere bills search units; one covers a query with up to this many documents.
DOCUMENTS_A_SEARCH_UNIT = 100

Positive = Annotated[int, Field(strict=True, ge=1)]


def _as_object(document: object) -> object:
    if not isinstance(document, str | dict):
        raise ValueError("must be a text, or an object with its text")
    return {"text": document} if isinstance(document, str) else document


Document = Annotated[dict[str, JsonValue], BeforeValidator(_as_object)]


class _RerankRequest(VendorRequest):
    query: QueryText
    documents: Annotated[tuple[Document, ...], Items(1, 1_000)]
    top_n: Positive | None = None
    rank_fields: Annotated[tuple[Text, ...], Items(1, 1_000)] | None = None
    return_documents: bool | None = None

    @property
    def texts(self) -> list[str]:
        """Returns the text to score of each document: `text`, or its joined `rank_fields`. Raises BadInput."""
        fields = self.rank_fields or ("text",)
        return [_document_text(document, fields, place) for place, document in enumerate(self.documents)]


class RerankV1(_RerankRequest):
    """A request of Cohere v1, Jina or vLLM. `max_chunks_per_doc` has no effect: a document is one chunk, cut at the
    model's token limit, which is all that `truncation` and `truncate_prompt_tokens` may ask for."""

    model: str | None = None
    max_chunks_per_doc: Positive | None = None
    truncation: bool | None = None
    truncate_prompt_tokens: TokenLimit | None = None


class RerankV2(_RerankRequest):
    """A request of Cohere v2. `priority` has no effect: requests are served in turn. `max_tokens_per_doc` must be at
    least the model's token limit, where documents are cut."""

    model: str
    max_tokens_per_doc: Positive | None = None
    priority: int | None = None


class Result(Wire):
    """The score of one document. `index` is its position in the request; `document` is set with `return_documents`."""

    index: Count
    relevance_score: FiniteFloat
    document: dict[str, JsonValue] | None = None


class ApiVersion(Wire):
    """The version of Cohere's API that answered."""

    version: str


class BilledUnits(Wire):
    """What Cohere would have billed. Nothing is billed here, but clients read the field."""

    search_units: Count


class CohereMeta(Wire):
    """The API version, and `warnings` if another model answered than the request named."""

    api_version: ApiVersion
    billed_units: BilledUnits
    warnings: tuple[str, ...] | None = None


class JinaUsage(Wire):
    """The number of tokens that the model read: the query and the document, summed over all documents."""

    total_tokens: Count


class AnswerV2(Wire):
    """The results, best first; `relevance_score` is in [0, 1]. `id` is the request's id."""

    id: str
    results: tuple[Result, ...]
    meta: CohereMeta


class AnswerV1(AnswerV2):
    """AnswerV2 with the fields that Jina's clients read: the model, and the tokens that it read."""

    model: str
    usage: JinaUsage


class CohereError(Wire):
    """The body of an error of Cohere v2; `id` is the request's id."""

    id: str
    message: str


class CohereOrJinaError(CohereError):
    """The body of an error for clients of Cohere v1, which read `message`, and of Jina, which read `detail`."""

    detail: str


def cohere_wording(problem: Problem) -> tuple[int, CohereError]:
    """Returns status and body of a problem as Cohere v2 sends them; Cohere answers 400 to every faulty body."""
    return _cohere_status(problem), CohereError(id=problem.request_id, message=problem.detail)


def cohere_or_jina_wording(problem: Problem) -> tuple[int, CohereOrJinaError]:
    """Returns status and body with both vendors' keys; of the status, Jina's clients read only that it is an error."""
    return _cohere_status(problem), CohereOrJinaError(
        id=problem.request_id, message=problem.detail, detail=problem.detail
    )


def cohere_v1_router(scorer: Scorer) -> APIRouter:
    """Returns the routes for Cohere v1 and Jina: `POST /v1/rerank`."""
    routes = router(CohereOrJinaError)

    @routes.post("/v1/rerank", response_model_exclude_none=True)
    @handled("own", scope="search", slow=True)
    async def rerank_v1(request: RerankV1, response: Response, received: Request) -> AnswerV1:
        check_requested_model(request.model, scorer.model)
        check_truncation(request.truncation, request.truncate_prompt_tokens, scorer.max_tokens)
        texts = request.texts
        ranked = await rank(received, scorer, request.query, texts)
        read = sum(min(length, scorer.max_tokens) for length in await lengths(scorer, request.query, texts))
        response.headers[MODEL_HEADER] = scorer.model
        return AnswerV1(
            id=request_id(),
            model=scorer.model,
            results=_results(request, ranked),
            usage=JinaUsage(total_tokens=read),
            meta=_meta("1", request, request.model, scorer.model),
        )

    return routes


def cohere_v2_router(scorer: Scorer) -> APIRouter:
    """Returns the routes for Cohere v2: `POST /v2/rerank`."""
    routes = router(CohereError)

    @routes.post("/v2/rerank", response_model_exclude_none=True)
    @handled("own", scope="search", slow=True)
    async def rerank_v2(request: RerankV2, response: Response, received: Request) -> AnswerV2:
        check_requested_model(request.model, scorer.model)
        if request.max_tokens_per_doc is not None and request.max_tokens_per_doc < scorer.max_tokens:
            raise BadInput(f"max_tokens_per_doc: must be at least {scorer.max_tokens}, where this model cuts anyway.")
        ranked = await rank(received, scorer, request.query, request.texts)
        response.headers[MODEL_HEADER] = scorer.model
        return AnswerV2(
            id=request_id(), results=_results(request, ranked), meta=_meta("2", request, request.model, scorer.model)
        )

    return routes


def _document_text(document: dict[str, JsonValue], fields: Sequence[str], place: int) -> str:
    parts: list[str] = []
    for field in fields:
        part = document.get(field)
        if not isinstance(part, str):
            raise BadInput(f"documents.{place}: {field} must be present and a text; name other fields in rank_fields.")
        parts.append(part)
    return " ".join(parts)


def _results(request: _RerankRequest, ranked: list[RankedText]) -> tuple[Result, ...]:
    return tuple(
        Result(
            index=text.index,
            relevance_score=text.relevance,
            document=request.documents[text.index] if request.return_documents else None,
        )
        for text in ranked[: request.top_n]
    )


def _meta(version: str, request: _RerankRequest, named: str | None, served: str) -> CohereMeta:
    units = -(-len(request.documents) // DOCUMENTS_A_SEARCH_UNIT)
    warning = f"The model {named} is not served here; {served} scored these documents."
    return CohereMeta(
        api_version=ApiVersion(version=version),
        billed_units=BilledUnits(search_units=units),
        warnings=None if is_served(named, served) else (warning,),
    )


def _cohere_status(problem: Problem) -> int:
    return 400 if problem.status in (400, 422) else problem.status
