"""Both clients of the client package behind one interface, over a transport of this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx

from retrieval_client import AsyncClient, Client

ClientKind = Literal["blocking", "awaiting"]


class Bridge(httpx.BaseTransport):
    """Sends what a blocking client sends in another thread over a transport of the event loop."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner, self._loop = inner, asyncio.get_running_loop()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._handle(request), self._loop).result()

    async def _handle(self, request: httpx.Request) -> httpx.Response:
        headers, content = request.headers, request.read()
        sent = httpx.Request(request.method, request.url, headers=headers, content=content)
        answer = await self._inner.handle_async_request(sent)
        return httpx.Response(answer.status_code, headers=answer.headers, content=await answer.aread())


class AtOnce(httpx.AsyncBaseTransport):
    """Sends requests on, and shortens the waits that refusals name to none: HTTP has none between 0 and a second."""

    def __init__(self, inner: httpx.AsyncBaseTransport) -> None:
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inner.handle_async_request(request)
        if "retry-after" in answer.headers:
            answer.headers["retry-after"] = "0"
        return answer


class Subject:
    """One of the clients; `call` awaits a method by its name."""

    def __init__(self, client: Client | AsyncClient) -> None:
        self.client = client

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        if isinstance(self.client, Client):
            return await asyncio.to_thread(getattr(self.client, name), *args, **kwargs)
        return await getattr(self.client, name)(*args, **kwargs)

    async def documents(self, collection: str) -> list[Any]:
        return [document async for document in self.reading(collection)]

    async def reading(self, collection: str) -> AsyncIterator[Any]:
        if isinstance(self.client, Client):
            documents = self.client.documents(collection)
            while (document := await asyncio.to_thread(next, documents, None)) is not None:
                yield document
        else:
            async for document in self.client.documents(collection):
                yield document

    def within(self, deadline_ms: int) -> "Subject":
        return Subject(self.client.within(deadline_ms))


@asynccontextmanager
async def subject(kind: ClientKind, transport: httpx.AsyncBaseTransport, **more: Any) -> AsyncIterator[Subject]:
    """Yields an open client over a transport."""
    if kind == "blocking":
        with Client("http://127.0.0.1", transport=Bridge(transport), **more) as client:
            yield Subject(client)
    else:
        async with AsyncClient("http://127.0.0.1", transport=transport, **more) as awaiting:
            yield Subject(awaiting)
