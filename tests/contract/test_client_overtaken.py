"""What a load does about documents of which another writer's newer write was taken meanwhile."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from retrieval_client.loading import LoadReport
from tests.support.client_subjects import ClientKind, subject
from tests.support.real_stack import RealStack, numbered


@pytest.fixture(params=["blocking", "awaiting"])
def kind(request: pytest.FixtureRequest) -> ClientKind:
    chosen: ClientKind = request.param
    return chosen


@asynccontextmanager
async def overtaken(stack: RealStack, kind: ClientKind) -> AsyncIterator[asyncio.Future[LoadReport]]:
    """Within the block the load of 3 documents waits for the dense service, and newer writes may be sent; the load ends
    after it."""
    stack.ways["dense"].hold = (b"older", asyncio.Event())
    async with subject(kind, stack.into_gateway) as client:
        loading = asyncio.ensure_future(client.call("load", "c", numbered(3, "older")))
        await asyncio.sleep(0.3)
        yield loading
        held = stack.ways["dense"].hold
        assert held is not None
        held[1].set()
        await loading


async def test_an_overtaken_document_is_reported_and_not_sent_again(loaded: RealStack, kind: ClientKind) -> None:
    async with overtaken(loaded, kind) as loading:
        assert (await loaded.send([{"id": "d01", "text": "newer"}])).json()["complete"]
        assert (await loaded.post("/documents/delete", ids=["d02"])).json()["complete"]
    report = loading.result()
    assert await loaded.texts(["d00", "d01", "d02"]) == {"d00": "older 0", "d01": "newer"}
    assert (report.overtaken, report.repetitions, report.documents) == ({"d01", "d02"}, 0, 3)
    digests = await loaded.digests("c@1")
    assert digests["lexical"] == digests["dense"]


async def test_a_batch_that_is_sent_again_leaves_out_what_was_overtaken(loaded: RealStack, kind: ClientKind) -> None:
    lexical, failed = loaded.ways["lexical"].inner, list[bytes]()

    async def fail_once(request: httpx.Request) -> httpx.Response:
        if b"older" in request.content and not failed:
            failed.append(request.content)
            return httpx.Response(500)
        return await lexical.handle_async_request(request)

    loaded.ways["lexical"].inner = httpx.MockTransport(fail_once)
    async with overtaken(loaded, kind) as loading:
        assert (await loaded.send([{"id": "d01", "text": "newer"}])).json()["complete"]
    report = loading.result()
    assert await loaded.texts(["d00", "d01", "d02"]) == {"d00": "older 0", "d01": "newer", "d02": "older 2"}
    assert (report.overtaken, report.repetitions) == ({"d01"}, 1)
