"""Checks which calls to a backend are retried on another replica, over transports that fail on demand."""

from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.backends.failures import BackendFailed
from gateway.backends.replica import Call
from gateway.backends.wire import Backend
from gateway.instruments import GatewayInstruments
from gateway.settings import BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.transport import ConnectionLost
from tests.support.wires import FixedEndpoints

LOST = ConnectionLost("lost")
UNSENT = httpx.ConnectError("refused")


class FailsOnce(httpx.AsyncBaseTransport):
    """Fails the first request, whichever replica it goes to, and answers all others."""

    def __init__(self) -> None:
        self.fault: Exception | int | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        fault, self.fault = self.fault, None
        if isinstance(fault, Exception):
            raise fault
        return httpx.Response(fault or 200, json={})


@pytest.fixture
def transport() -> FailsOnce:
    return FailsOnce()


@pytest.fixture
async def backend(transport: FailsOnce) -> AsyncIterator[Backend]:
    async with Supervisor(GatewayInstruments()) as supervisor:
        address = BackendAddress(family="lexical", url="http://lexical")
        endpoints = FixedEndpoints(transport, transport)
        backend = Backend("lexical", address, endpoints, 0.5, supervisor, GatewayInstruments())
        await backend.open()
        yield backend
        await backend.close()


@pytest.mark.parametrize(("reads", "fault"), [(True, LOST), (True, 502), (True, UNSENT), (False, UNSENT)])
async def test_reads_and_unsent_calls_are_retried_on_another_replica(
    transport: FailsOnce, backend: Backend, reads: bool, fault: Exception | int
) -> None:
    transport.fault = fault
    await backend.send(Call("POST", "/v1/collections/c@1/documents", 5.0, reads=reads))


@pytest.mark.parametrize("fault", [LOST, 502])
async def test_a_write_that_may_have_been_done_is_never_repeated(
    transport: FailsOnce, backend: Backend, fault: Exception | int
) -> None:
    transport.fault = fault
    with pytest.raises(BackendFailed):
        await backend.send(Call("POST", "/v1/collections/c@1/documents", 5.0))
