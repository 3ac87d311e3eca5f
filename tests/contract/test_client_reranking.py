"""What the client package's re-rankers promise, blocking and awaiting, over the re-ranker's own app."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest

from retrieval_client import AsyncReranker, Reranker, RetrievalError
from services.reranker.app import build_app
from services.reranker.settings import RerankerSettings
from tests.support.client_subjects import Bridge
from tests.support.keys import Keys

QUERY = "red bicycle"
TEXTS = ["a car", "a red bicycle", "a red car", "another car"]
BEST_FIRST = [(1, 1.0), (2, 0.5), (0, 0.0), (3, 0.0)]


@pytest.fixture(params=["blocking", "awaiting"])
async def rerank(request: pytest.FixtureRequest, keys: Keys) -> AsyncIterator[Callable[..., Any]]:
    """Re-ranks by one of both, which is opened with the options that the call names."""
    app = build_app(RerankerSettings(scorer="overlap", auth="on", keys_file=keys.file))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(app.router.lifespan_context(app))

        async def reranked(
            texts: list[str], top: int | None = None, transport: httpx.AsyncBaseTransport | None = None, **options: Any
        ) -> list[tuple[int, float]]:
            inner = transport or httpx.ASGITransport(app=app, raise_app_exceptions=False)
            options = {"key": keys.secrets["search"], **options}
            if request.param == "awaiting":
                async with AsyncReranker("http://127.0.0.1", transport=inner, **options) as awaiting:
                    return await awaiting.rerank(QUERY, texts, top=top)
            with Reranker("http://127.0.0.1", transport=Bridge(inner), **options) as blocking:
                return await asyncio.to_thread(blocking.rerank, QUERY, texts, top=top)

        yield reranked


async def failure(call: Any) -> RetrievalError:
    with pytest.raises(RetrievalError) as caught:
        await call
    return caught.value


async def test_texts_come_best_first_and_equal_ones_as_they_were_sent(rerank: Callable[..., Any]) -> None:
    assert await rerank(TEXTS) == BEST_FIRST
    assert await rerank(TEXTS, top=2) == BEST_FIRST[:2]


async def test_nothing_to_rank_is_an_empty_ranking(rerank: Callable[..., Any]) -> None:
    assert await rerank([]) == []


async def test_a_refusal_says_what_to_do(rerank: Callable[..., Any]) -> None:
    error = await failure(rerank(["word"] * 1_001))
    assert (error.kind, error.status) == ("http-400", 400)
    assert "documents" in error.detail
    assert "1000" in error.detail.replace(",", "")
    assert error.request_id


async def test_a_key_that_may_not_search_is_told_so(rerank: Callable[..., Any], keys: Keys) -> None:
    error = await failure(rerank(TEXTS, key=keys.secrets["revoked"]))
    assert error.status == 401
    assert "key" in error.detail


async def test_a_busy_reranker_is_asked_again_within_the_deadline(rerank: Callable[..., Any]) -> None:
    answers = [httpx.Response(429, json={"id": "r", "message": "Wait.", "detail": "Wait."})] * 2
    answers.append(httpx.Response(200, json={"results": [{"index": 0, "relevance_score": 0.5}]}))
    assert await rerank(["word"], transport=httpx.MockTransport(lambda _: answers.pop(0))) == [(0, 0.5)]

    busy = httpx.Response(429, json={"id": "r", "message": "Wait.", "detail": "Wait."}, headers={"retry-after": "9"})
    error = await failure(rerank(["word"], transport=httpx.MockTransport(lambda _: busy), deadline_ms=500))
    assert (error.kind, error.detail, error.request_id, error.retry_after_s) == ("http-429", "Wait.", "r", 9.0)


async def test_what_is_no_reranker_is_told_by_its_address(rerank: Callable[..., Any]) -> None:
    error = await failure(rerank(["word"], transport=httpx.MockTransport(lambda _: httpx.Response(404, text="no"))))
    assert (error.kind, error.status) == ("http-404", 404)
    assert "http://127.0.0.1/v1/rerank" in error.detail
