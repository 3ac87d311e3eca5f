"""Cohere's `/v2/rerank`, and `/v1/rerank` as a superset that clients of Cohere v1 and of Jina both accept.

What a client sends and we do not do is refused by name; what changes nothing here is accepted and said so below.
"""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Response
from pydantic import BeforeValidator, Field, FiniteFloat, JsonValue

from services.chassis.app import router
from services.chassis.errors import BadInput
from services.chassis.handling import handled
from services.chassis.telemetry import request_id
from services.contracts.base import Count, QueryText, Text, Wire
from services.contracts.lists import Items
from services.contracts.problem import Problem
from services.dialects.served_model import MODEL_HEADER, check_asked, is_served
from services.reranker.dialects.ranking import Ranked, lengths, ranked
from services.reranker.dialects.request import VendorRequest
from services.reranker.scorer import Scorer

# What Cohere bills: one search unit covers one query with up to so many documents.
DOCUMENTS_A_SEARCH_UNIT = 100

Positive = Annotated[int, Field(strict=True, ge=1)]


def _as_object(document: object) -> object:
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
        """What is scored of each document: `text`, or the `rank_fields` one after the other. Raises BadInput."""
        fields = self.rank_fields or ("text",)
        return [_text(document, fields, place) for place, document in enumerate(self.documents)]


class RerankV1(_RerankRequest):
    """Cohere v1 or Jina. `max_chunks_per_doc` changes nothing: a document is read as one piece, cut where the model's
    limit is, and one is within every limit of chunks."""

    model: str | None = None
    max_chunks_per_doc: Positive | None = None


class RerankV2(_RerankRequest):
    """Cohere v2. `priority` changes nothing: requests take turns. `max_tokens_per_doc` may not be below the model's own
    limit, where documents are cut."""

    model: str
    max_tokens_per_doc: Positive | None = None
    priority: int | None = None


class Result(Wire):
    """A document by its place among those sent, and itself where the request has `return_documents`."""

    index: Count
    relevance_score: FiniteFloat
    document: dict[str, JsonValue] | None = None


class ApiVersion(Wire):
    """Which of Cohere's APIs answered."""

    version: str


class BilledUnits(Wire):
    """What Cohere would have billed; nobody bills here, but clients read it."""

    search_units: Count


class CohereMeta(Wire):
    """Names the API version; `warnings` say when another model answered than the one named."""

    api_version: ApiVersion
    billed_units: BilledUnits
    warnings: tuple[str, ...] | None = None


class JinaUsage(Wire):
    """Counts the tokens that the model read, the query's with each document."""

    total_tokens: Count


class AnswerV2(Wire):
    """Best first; `relevance_score` is between 0 and 1. `id` is the request's."""

    id: str
    results: tuple[Result, ...]
    meta: CohereMeta


class AnswerV1(AnswerV2):
    """The same with what Jina's clients look for: the model that answered, and how much it read."""

    model: str
    usage: JinaUsage


class CohereError(Wire):
    """Cohere's v2 errors; `id` is the request's."""

    id: str
    message: str


class CohereOrJinaError(CohereError):
    """What a client of Cohere v1 (`message`) and one of Jina (`detail`) both find their sentence in."""

    detail: str


def cohere_wording(problem: Problem) -> tuple[int, CohereError]:
    """Cohere answers 400 to whatever is wrong with a body."""
    return _cohere_status(problem), CohereError(id=problem.request_id, message=problem.detail)


def cohere_or_jina_wording(problem: Problem) -> tuple[int, CohereOrJinaError]:
    """The same with both vendors' keys. Jina's clients look no further than whether the status is an error."""
    return _cohere_status(problem), CohereOrJinaError(
        id=problem.request_id, message=problem.detail, detail=problem.detail
    )


def cohere_v1_router(scorer: Scorer) -> APIRouter:
    """`POST /v1/rerank`, for Cohere v1 and Jina."""
    routes = router(CohereOrJinaError)

    @routes.post("/v1/rerank", response_model_exclude_none=True)
    @handled(slow=True)
    async def rerank_v1(asked: RerankV1, response: Response) -> AnswerV1:
        check_asked(asked.model, scorer.model)
        texts = asked.texts
        found = await ranked(scorer, asked.query, texts)
        read = sum(min(length, scorer.max_tokens) for length in await lengths(scorer, asked.query, texts))
        response.headers[MODEL_HEADER] = scorer.model
        return AnswerV1(
            id=request_id(),
            model=scorer.model,
            results=_results(asked, found),
            usage=JinaUsage(total_tokens=read),
            meta=_meta("1", asked, asked.model, scorer.model),
        )

    return routes


def cohere_v2_router(scorer: Scorer) -> APIRouter:
    """`POST /v2/rerank`."""
    routes = router(CohereError)

    @routes.post("/v2/rerank", response_model_exclude_none=True)
    @handled(slow=True)
    async def rerank_v2(asked: RerankV2, response: Response) -> AnswerV2:
        check_asked(asked.model, scorer.model)
        if asked.max_tokens_per_doc is not None and asked.max_tokens_per_doc < scorer.max_tokens:
            raise BadInput(f"max_tokens_per_doc: must be at least {scorer.max_tokens}, where this model cuts anyway.")
        found = await ranked(scorer, asked.query, asked.texts)
        response.headers[MODEL_HEADER] = scorer.model
        return AnswerV2(
            id=request_id(), results=_results(asked, found), meta=_meta("2", asked, asked.model, scorer.model)
        )

    return routes


def _text(document: dict[str, JsonValue], fields: Sequence[str], place: int) -> str:
    parts: list[str] = []
    for field in fields:
        part = document.get(field)
        if not isinstance(part, str):
            raise BadInput(f"documents.{place}: {field} must be there and be a text; name others by rank_fields.")
        parts.append(part)
    return " ".join(parts)


def _results(asked: _RerankRequest, found: list[Ranked]) -> tuple[Result, ...]:
    return tuple(
        Result(
            index=one.index,
            relevance_score=one.relevance,
            document=asked.documents[one.index] if asked.return_documents else None,
        )
        for one in found[: asked.top_n]
    )


def _meta(version: str, asked: _RerankRequest, named: str | None, served: str) -> CohereMeta:
    units = -(-len(asked.documents) // DOCUMENTS_A_SEARCH_UNIT)
    warning = f"The model {named} is not served here; {served} scored these documents."
    return CohereMeta(
        api_version=ApiVersion(version=version),
        billed_units=BilledUnits(search_units=units),
        warnings=None if is_served(named, served) else (warning,),
    )


def _cohere_status(problem: Problem) -> int:
    return 400 if problem.status in (400, 422) else problem.status
