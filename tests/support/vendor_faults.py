"""Provokes faults on every route of a vendor's dialect; returns the answers to its clients."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx

JSON = {"content-type": "application/json"}
# The sentence inside an error's body; a body of another shape is a KeyError.
Sentence = Callable[[httpx.Response], str]


async def overloaded(client: httpx.AsyncClient, path: str, lane: str = "bulk", **body: object) -> httpx.Response:
    """Returns the answer of a service with one slot and no queue while another request holds the slot."""
    transport = client._transport
    assert isinstance(transport, httpx.ASGITransport)
    app: Any = transport.app
    async with app.state.lanes[lane].slot(60.0):
        return await client.post(path, json=body)


async def too_late(client: httpx.AsyncClient, path: str) -> httpx.Response:
    """Returns the answer to a body that was incomplete at its deadline."""

    async def slow() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(5)
        yield b"}"

    return await client.post(path, content=slow(), headers=JSON | {"x-deadline-ms": "50"})


async def too_large(client: httpx.AsyncClient, path: str) -> httpx.Response:
    return await client.post(path, content=b" " * 5_000, headers=JSON)


async def not_json(client: httpx.AsyncClient, path: str) -> httpx.Response:
    return await client.post(path, content=b"{", headers=JSON)
