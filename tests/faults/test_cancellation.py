"""Calls cancelled at any moment leak neither connections nor tasks (httpx's own pool did: encode/httpcore 1093)."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.app import socket_endpoints
from gateway.downstream import Backend
from gateway.exchange import Call
from gateway.settings import BackendAddress
from gateway.sockets import SocketTransport
from services.chassis.background_tasks import Supervisor
from services.chassis.instruments import Instruments
from services.contracts.rerank import ScoreAnswer, ScoreRequest
from tests.support.wires import FixedEndpoints

SLOTS = 10
TASKS = 40
REQUEST = ScoreRequest(query="a", passages=("b" * 500,))
ANSWER = ScoreAnswer(model="stub", weight=1.0, scores=(1.0,)).model_dump_json().encode()
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)


class Stub:
    """An HTTP server that pauses between headers and body, or answers only when SLOTS requests have arrived."""

    def __init__(self) -> None:
        self.random = random.Random(7)
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
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client cancelled
        finally:
            writer.close()


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Backend, Stub]]:
    stub = Stub()
    # Cancelled connections also wait to be accepted: a full backlog would drop connections that were not cancelled.
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0, backlog=4_096)
    port = server.sockets[0].getsockname()[1]
    address = BackendAddress(family="reranker", url=f"http://127.0.0.1:{port}")
    assert type(socket_endpoints("reranker", address).transport("127.0.0.1")) is SocketTransport
    # The production transport with few slots, so that a single leaked one is detected.
    endpoints = FixedEndpoints(SocketTransport("127.0.0.1", most=SLOTS))
    async with Supervisor(Instruments()) as supervisor:
        backend = Backend("reranker", address, endpoints, 10.0, supervisor, Instruments())
        await backend.open()
        try:
            yield backend, stub
        finally:
            await backend.close()
            server.close()


def call() -> Call:
    return Call("POST", "/v1/score", 60.0, REQUEST, reads=True)


async def cancel_at_random(backend: Backend, chance: random.Random, times: int) -> int:
    """Starts calls and cancels each after 0 to 4 ms unless it has ended. Returns how many were cancelled."""
    cancelled = 0
    while cancelled < times:
        asking = asyncio.create_task(backend.request(call(), ScoreAnswer))
        await asyncio.sleep(chance.choice((0.0, chance.uniform(0, 0.004))))
        asking.cancel()
        try:
            await asking
        except asyncio.CancelledError:
            cancelled += 1
    return cancelled


@pytest.mark.parametrize(
    "cancellations", [2_000, pytest.param(100_000, marks=[pytest.mark.integration, pytest.mark.timeout(600)])]
)
async def test_random_cancellations_leak_nothing(cancellations: int) -> None:
    async with connected() as (backend, stub):
        await backend.request(call(), ScoreAnswer)
        before = len(asyncio.all_tasks())
        chance = random.Random(cancellations)
        share = cancellations // TASKS
        counts = await asyncio.gather(*(cancel_at_random(backend, chance, share) for _ in range(TASKS)))
        assert sum(counts) == cancellations
        # The stub answers only when it has as many requests as there are slots, so a leaked slot would block it.
        stub.together = True
        async with asyncio.timeout(30):
            answers = await asyncio.gather(*(backend.request(call(), ScoreAnswer) for _ in range(SLOTS)))
        assert [answer.scores for answer in answers] == [(1.0,)] * SLOTS
        await asyncio.sleep(0.1)
        assert len(asyncio.all_tasks()) <= before + SLOTS  # the stub has one for each open connection
        assert backend.state == "closed"
