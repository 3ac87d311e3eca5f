"""A refused body is freed at once: no cycle of an error and its frames holds it until a garbage collection."""

import asyncio
import gc
import json
import tracemalloc

import pytest
from starlette.types import ASGIApp, Message

from tests.unit.services.chassis.test_chassis import small_app

BODIES = {
    "unterminated": (400, b'{"query": "' + b"x" * 1_000_000),
    "too many values": (422, json.dumps([1] * 300_000).encode()),
    "a wrong field": (422, json.dumps({"query": {"of": "x" * 1_000_000}}).encode()),
    "a field that a validator refuses": (422, json.dumps({"query": " ", "other": "x" * 1_000_000}).encode()),
}


@pytest.mark.parametrize("body", BODIES)
async def test_a_refused_body_is_freed_without_a_garbage_collection(body: str) -> None:
    status, sent = BODIES[body]
    app = small_app()
    async with app.router.lifespan_context(app):
        assert await _post(app, sent) == status  # fills caches
        assert not gc.isenabled()
        tracemalloc.start()
        try:
            assert await _post(app, bytes(bytearray(sent))) == status
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert held < 200_000


async def _post(app: ASGIApp, body: bytes) -> int:
    """Posts a body to /echo and returns the status. An httpx client would hold the body in a cycle of its own."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    del body
    sent: list[Message] = []
    gone = asyncio.Event()

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http", "http_version": "1.1", "method": "POST", "scheme": "http", "root_path": "", "query_string": b"",
        "path": "/echo", "raw_path": b"/echo", "headers": [(b"content-type", b"application/json")],
        "server": ("service", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    gone.set()
    await asyncio.sleep(0)  # ends the task that watches for a disconnect
    status: int = sent[0]["status"]
    return status
