"""When one replica is set aside, over a transport that fails when it is told to."""

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


async def failed(replica: Replica) -> None:
    with pytest.raises(BackendFailed) as failure:
        await replica.attempt(SEARCH, bytes, 1.0)
    replica.failed(failure.value, reads=True)


async def test_failures_in_a_row_set_a_replica_aside_however_well_it_did_before() -> None:
    transport = Switched()
    async with Supervisor(Instruments()) as supervisor:
        replica = Replica(Peer("lexical", "http://lexical", 0.5), transport, lambda _: True, supervisor)
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
        await replica.close()
