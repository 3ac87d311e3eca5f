"""Scores texts by the re-ranker, a service of its own: `Reranker` blocks, `AsyncReranker` awaits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import httpx
from pydantic import BaseModel
from pydantic_core import to_json

from retrieval_client.clients import DEADLINE_MS, AsyncClient, Client
from retrieval_client.exchange import Steps, ask


class _Result(BaseModel):
    index: int
    relevance_score: float


class _Ranking(BaseModel):
    results: list[_Result]


def _rerank(within_s: float, query: str, texts: Sequence[str], top: int | None) -> Steps[list[tuple[int, float]]]:
    # Cohere's and Jina's wire, and not /v1/score: that one is the gateway's, and a key for searching may not call it.
    if not texts:
        return []
    body = to_json({"query": query, "documents": texts, "top_n": top})
    ranking = yield from ask(_Ranking.model_validate_json, "POST", "/v1/rerank", within_s, body)
    return [(one.index, one.relevance_score) for one in ranking.results]


def passage(title: object, text: str | None) -> str:
    """Returns what pipelines re-rank of a document, `<title> <text>`. Either may be missing."""
    return f"{title or ''} {text or ''}".strip()


class Reranker:
    """Calls one re-ranker, and blocks. Threads may share it. The arguments are those of `Client`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        ca_file: Path | str | None = None,
        deadline_ms: int = DEADLINE_MS,
        trust_plain: bool = False,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._client = Client(
            url, key=key, ca_file=ca_file, deadline_ms=deadline_ms, trust_plain=trust_plain, transport=transport
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._client.close()

    def rerank(self, query: str, texts: Sequence[str], *, top: int | None = None) -> list[tuple[int, float]]:
        """Returns place and relevance (0 to 1) of the `top` texts or of all, best first; at most 1,000 texts."""
        return self._client._run(_rerank(self._client._within_s, query, texts, top))


class AsyncReranker:
    """Calls one re-ranker, and awaits. The arguments are those of `Client`."""

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        ca_file: Path | str | None = None,
        deadline_ms: int = DEADLINE_MS,
        trust_plain: bool = False,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._client = AsyncClient(
            url, key=key, ca_file=ca_file, deadline_ms=deadline_ms, trust_plain=trust_plain, transport=transport
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()

    async def rerank(self, query: str, texts: Sequence[str], *, top: int | None = None) -> list[tuple[int, float]]:
        """Returns what `Reranker.rerank` returns."""
        return await self._client._run(_rerank(self._client._within_s, query, texts, top))
