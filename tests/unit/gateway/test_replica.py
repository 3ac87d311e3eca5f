"""When one replica is set aside, over a transport that fails when it is told to."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.exchange import Call, Peer
from gateway.failures import BackendFailed
from gateway.replicas import IN_A_ROW, Replica
from services.chassis.instruments import Instruments
from services.chassis.supervised import Supervisor

SEARCH = Call("POST", "/v1/collections/c@1/search", 1.0, reads=True)


class Switched(httpx.AsyncBaseTransport):
    """Answers with the status that it is set to."""

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
    return Replica(Peer("lexical", "http://lexical", 0.5), transport, lambda _: others_answer, supervisor)


async def failed(replica: Replica, *, reads: bool = True) -> None:
    with pytest.raises(BackendFailed) as failure:
        await replica.attempt(SEARCH, bytes, 1.0)
    replica.failed(failure.value, reads=reads)


async def test_failures_in_a_row_set_a_replica_aside_however_well_it_did_before(
    transport: Switched, supervisor: Supervisor
) -> None:
    replica = replica_of(transport, supervisor)
    for _ in range(200):
        await replica.attempt(SEARCH, bytes, 1.0)
    transport.status = 500
    for _ in range(IN_A_ROW - 1):
        await failed(replica)
    transport.status = 200
    await replica.attempt(SEARCH, bytes, 1.0)
    transport.status = 500
    for _ in range(IN_A_ROW - 1):
        await failed(replica)
        assert replica.breaker.state == "closed"
    await failed(replica)
    assert replica.breaker.state == "open"


async def test_a_replica_that_cannot_write_is_read_as_before(transport: Switched, supervisor: Supervisor) -> None:
    replica = replica_of(transport, supervisor)
    transport.status = 502
    for _ in range(4 * IN_A_ROW):
        await failed(replica, reads=False)
    assert replica.breaker.state == "closed"


async def test_while_others_answer_one_that_was_set_aside_waits_longer_than_its_breaker(
    transport: Switched, supervisor: Supervisor
) -> None:
    replica = replica_of(transport, supervisor)
    transport.status = 500
    for _ in range(IN_A_ROW):
        await failed(replica)
    began = time.monotonic()
    transport.status = 200
    for _ in range(200):
        if replica.breaker.state != "open":
            break
        await asyncio.sleep(0.05)
    assert replica.breaker.state == "half-open"
    assert time.monotonic() - began >= 1.9  # the breaker's own time is one second
