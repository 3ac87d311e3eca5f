"""Checks when the breaker of one replica opens, over a transport that fails on demand."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.exchange import Call, Peer
from gateway.failures import BackendFailed
from gateway.replicas import CONSECUTIVE_FAILURES, Replica
from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments
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
    async with Supervisor(Instruments()) as supervisor:
        yield supervisor


def replica_of(transport: Switched, supervisor: Supervisor, *, others_answer: bool = True) -> Replica:
    return Replica(Peer("lexical", "http://lexical", 0.5), HttpxWire(transport), lambda _: others_answer, supervisor)


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
