"""Scores texts by the re-ranker, a service of its own: `Reranker` blocks, `AsyncReranker` awaits."""

from collections.abc import Sequence

from pydantic import BaseModel
from pydantic_core import to_json

from retrieval_client.clients import Awaiting, Blocking, awaited, blocking
from retrieval_client.exchange import Steps, ask


class _Result(BaseModel):
    index: int
    relevance_score: float


class _Ranking(BaseModel):
    results: list[_Result]


def _rerank(
    within_s: float, query: str, texts: Sequence[str], *, top: int | None = None
) -> Steps[list[tuple[int, float]]]:
    """Returns place and relevance (0 to 1) of the `top` texts or of all, best first; at most 1,000 texts."""
    # Cohere's and Jina's wire, and not /v1/score: that one is the gateway's, and a key for searching may not call it.
    if not texts:
        return []
    body = to_json({"query": query, "documents": texts, "top_n": top})
    ranking = yield from ask(_Ranking.model_validate_json, "POST", "/v1/rerank", within_s, body)
    return [(one.index, one.relevance_score) for one in ranking.results]


class Reranker(Blocking):
    """Calls one re-ranker, and blocks. Threads may share it. The arguments are those of `Client`."""

    rerank = blocking(_rerank)


class AsyncReranker(Awaiting):
    """Calls one re-ranker, and awaits. The arguments are those of `Client`."""

    rerank = awaited(_rerank)
