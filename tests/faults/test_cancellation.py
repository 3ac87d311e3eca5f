"""Calls of a backend that are cancelled at any moment leak neither connections nor tasks.

httpx's own pool leaked: httpcore 1093. Tasks call a re-ranker over the gateway's own transport with few connections,
and cancel each call after 0 to 4 ms unless it has ended. The stub pauses between headers and body. Afterwards it
answers only when as many calls as connections have arrived, so that a single lost connection is seen.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.app import SocketEndpoints
from gateway.backends.replica import Call
from gateway.backends.wire import Backend
from gateway.instruments import GatewayInstruments
from gateway.settings import BackendAddress
from services.chassis.background_tasks import Supervisor
from services.chassis.calls.sockets import SocketTransport
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from tests.support.wires import FixedEndpoints

SEED = 7
SLOTS = 10
TASKS = 40
GIVEN_UP_S = 30.0
REQUEST = ScoreRequest(query="a", passages=("b" * 500,))
ANSWER = ScoreAnswer(model="stub", weight=1.0, scores=(1.0,))
BODY = ANSWER.model_dump_json().encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(BODY)


class Stub:
    """An HTTP server that pauses between headers and body, or answers only when SLOTS requests have arrived."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.together = False
        self.present = 0
        self.all_here = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0] or 0)
                await reader.readexactly(length)
                if self.together:
                    self.present += 1
                    if self.present == SLOTS:
                        self.all_here.set()
                    await self.all_here.wait()
                writer.write(HEAD)
                await asyncio.sleep(self.random.choice((0, 0, 0.001, 0.003)))
                writer.write(BODY)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client cancelled
        finally:
            writer.close()


@asynccontextmanager
async def _connected(seed: int) -> AsyncIterator[tuple[Backend, Stub]]:
    stub = Stub(seed)
    # Cancelled connections also wait to be accepted: a full backlog would drop connections that were not cancelled.
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, backlog=4_096)
    port = server.sockets[0].getsockname()[1]
    address = BackendAddress(family="reranker", url=f"http://127.0.0.1:{port}")
    assert type(SocketEndpoints(address).transport("127.0.0.1")) is SocketTransport
    # The production transport with few slots, so that a single leaked one is detected.
    endpoints = FixedEndpoints(SocketTransport("127.0.0.1", most=SLOTS))
    async with Supervisor(GatewayInstruments()) as supervisor:
        backend = Backend("reranker", address, endpoints, 10.0, supervisor, GatewayInstruments())
        await backend.open()
        try:
            yield backend, stub
        finally:
            await backend.close()
            server.close()


def _call() -> Call:
    return Call("POST", "/v1/score", 60.0, REQUEST, reads=True)


async def _cancel_at_random(backend: Backend, chance: random.Random, times: int) -> int:
    """Starts calls and cancels each after 0 to 4 ms unless it has ended. Returns how many were cancelled."""
    cancelled = 0
    while cancelled < times:
        asking = asyncio.create_task(backend.request(_call(), ScoreAnswer))
        await asyncio.sleep(chance.choice((0.0, chance.uniform(0, 0.004))))
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            cancelled += 1
    return cancelled


@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=[pytest.mark.integration, pytest.mark.alone])])
async def test_random_cancellations_leak_nothing(count: int) -> None:
    async with _connected(SEED) as (backend, stub):
        await backend.request(_call(), ScoreAnswer)
        before = len(asyncio.all_tasks())
        chance = random.Random(SEED)
        await asyncio.gather(*(_cancel_at_random(backend, chance, count // TASKS) for _ in range(TASKS)))
        stub.together = True
        assert await _answered_together(backend) == SLOTS
        most = before + SLOTS  # the stub has a task for each open connection
        assert await _tasks_left(most) <= most
        assert backend.state == "closed"


async def _answered_together(backend: Backend) -> int:
    calls = [asyncio.create_task(backend.request(_call(), ScoreAnswer)) for _ in range(SLOTS)]
    done, late = await asyncio.wait(calls, timeout=GIVEN_UP_S)
    for call in late:
        call.cancel()
    return sum(call.exception() is None and call.result().scores == ANSWER.scores for call in done)


async def _tasks_left(most: int) -> int:
    """Waits until there are at most so many tasks; a busy machine ends them late."""
    for _ in range(int(GIVEN_UP_S / 0.1)):
        if len(asyncio.all_tasks()) <= most:
            break
        await asyncio.sleep(0.1)
    return len(asyncio.all_tasks())
