"""Checks when the breaker of one replica opens, over a transport that fails on demand."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from gateway.backends import replica as replica_module
from gateway.backends.failures import BackendFailed
from gateway.backends.replica import CONSECUTIVE_FAILURES, LIVENESS, Call, Peer, Replica
from gateway.instruments import GatewayInstruments
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.sockets import SocketTransport
from tests.support.wires import HttpxWire

SEARCH = Call("POST", "/v1/collections/c@1/search", 1.0, reads=True)


class Switched(httpx.AsyncBaseTransport):
    """Answers with a status that tests set."""

    status = 200

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, json={})


@pytest.fixture
def transport() -> Switched:
    return Switched()


@pytest.fixture
async def supervisor() -> AsyncIterator[Supervisor]:
    async with Supervisor(GatewayInstruments()) as supervisor:
        yield supervisor


def replica_of(transport: Switched, supervisor: Supervisor, *, others_answer: bool = True) -> Replica:
    wire = HttpxWire(transport)
    opened = GatewayInstruments().breakers_opened.labels("lexical")
    return Replica(Peer("lexical", "http://lexical", 0.5), wire, wire, lambda _: others_answer, supervisor, opened)


async def failed(replica: Replica, *, reads: bool = True) -> None:
    with pytest.raises(BackendFailed) as failure:
        await replica.attempt(SEARCH, bytes, 1.0)
    replica.failed(failure.value, reads=reads)


async def test_consecutive_failures_open_the_breaker_however_many_successes_came_before(
    transport: Switched, supervisor: Supervisor
) -> None:
    replica = replica_of(transport, supervisor)
    for _ in range(200):
        await replica.attempt(SEARCH, bytes, 1.0)
    transport.status = 500
    for _ in range(CONSECUTIVE_FAILURES - 1):
        await failed(replica)
    transport.status = 200
    await replica.attempt(SEARCH, bytes, 1.0)
    transport.status = 500
    for _ in range(CONSECUTIVE_FAILURES - 1):
        await failed(replica)
        assert replica.breaker.state == "closed"
    await failed(replica)
    assert replica.breaker.state == "open"


async def test_failed_writes_do_not_open_the_breaker_for_reads(transport: Switched, supervisor: Supervisor) -> None:
    replica = replica_of(transport, supervisor)
    transport.status = 502
    for _ in range(4 * CONSECUTIVE_FAILURES):
        await failed(replica, reads=False)
    assert replica.breaker.state == "closed"


async def test_while_others_answer_a_failed_replica_waits_longer_than_its_breaker(
    transport: Switched, supervisor: Supervisor
) -> None:
    replica = replica_of(transport, supervisor)
    transport.status = 500
    for _ in range(CONSECUTIVE_FAILURES):
        await failed(replica)
    began = time.monotonic()
    transport.status = 200
    for _ in range(200):
        if replica.breaker.state != "open":
            break
        await asyncio.sleep(0.05)
    assert replica.breaker.state == "half-open"
    assert time.monotonic() - began >= 1.9  # the breaker's own time is one second


LIVE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def slow_but_alive() -> AsyncIterator[str]:
    """Runs a server that answers its liveness probe at once and nothing else. Yields its URL."""
    over = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                if LIVENESS.encode() not in head:
                    await over.wait()
                writer.write(LIVE)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        over.set()
        server.close()


async def test_calls_that_take_every_connection_set_no_live_backend_aside(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    monkeypatch.setattr(replica_module, "BUSY_S", 0.4)
    async with slow_but_alive() as url:
        calls, liveness = (SocketTransport("127.0.0.1", most=2) for _ in range(2))
        opened = GatewayInstruments().breakers_opened.labels("lexical")
        replica = Replica(Peer("lexical", url, 0.5), calls, liveness, lambda _: False, supervisor, opened)
        patient = [asyncio.create_task(replica.attempt(SEARCH, bytes, 30.0)) for _ in range(2)]
        await asyncio.sleep(0.05)
        with pytest.raises(BackendFailed) as hurried:
            await replica.attempt(SEARCH, bytes, 0.05)
        replica.failed(hurried.value, reads=True)
        await asyncio.sleep(0.6)
        assert (replica.breaker.state, replica.suspect) == ("closed", False)
    await asyncio.gather(*patient)
    await replica.close()


class Refusing(Switched):
    """Refuses calls for overload, and leaves its liveness probe without an answer."""

    status = 429

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == LIVENESS:
            await asyncio.sleep(3_600)
        return await super().handle_async_request(request)


async def test_a_backend_that_refuses_calls_for_overload_is_alive_however_late_its_probes_are(
    monkeypatch: pytest.MonkeyPatch, supervisor: Supervisor
) -> None:
    monkeypatch.setattr(replica_module, "BUSY_S", 0.3)
    replica = replica_of(Refusing(), supervisor)
    replica.mark_suspect()
    await asyncio.sleep(0.05)
    await failed(replica)
    await asyncio.sleep(0.4)
    assert replica.breaker.state == "closed"
