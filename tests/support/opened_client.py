"""Opens an app of ours, and a client that calls it within this process."""

from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI


@asynccontextmanager
async def opened_client(
    app: FastAPI, base_url: str = "http://service", *, raises: bool = True, **options: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """Yields the client. `raises`: an error that the app does not answer is raised here, and is no 500."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=raises)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url=base_url, **options) as client,
    ):
        yield client


async def ok(asking: Awaitable[httpx.Response]) -> dict[str, Any]:
    """Returns the body of an answer, whose status is 200."""
    answer = await asking
    assert answer.status_code == 200, answer.text
    return dict(answer.json())
