"""`python -m tests.soak.load_stub queue|stall|fixed MILLISECONDS`: a server with a known law of service.

`queue`: one server, one request after another, each for so long. `stall`: each for so long, none during the first
second of every ten. `fixed`: each for so long, all at once. Prints its port.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from typing import cast

import uvloop

from evaluator.load.sending.generator import PreciseClock

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)


class KnownService:
    """Answers every request at the time that the law gives, in the order of these times."""

    def __init__(self, ends_at: Callable[[float], float], clock: PreciseClock) -> None:
        self._ends_at = ends_at
        self._clock = clock
        self._due: asyncio.PriorityQueue[tuple[float, int, asyncio.Transport]] = asyncio.PriorityQueue()
        self._arrived = 0

    def arrived(self, transport: asyncio.Transport) -> None:
        self._arrived += 1
        self._due.put_nowait((self._ends_at(self._clock.now()), self._arrived, transport))

    async def answer(self) -> None:
        # Every law here keeps the order of arrival, so nobody can become due before the one that is waited for.
        while True:
            due_s, _, transport = await self._due.get()
            await self._clock.until(due_s)
            transport.write(ANSWER)


class Exchange(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, service: KnownService) -> None:
        self._service = service
        self._read = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._read += data
        head, end, body = self._read.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if end and length and len(body) >= int(length[1]):
            self._read = b""
            self._service.arrived(self._transport)


def law(kind: str, service_s: float) -> Callable[[float], float]:
    """Returns when a request that arrives at a time is answered."""
    free_at = 0.0

    def queue(now: float) -> float:
        nonlocal free_at
        free_at = max(now, free_at) + service_s
        return free_at

    def stall(now: float) -> float:
        return now + max(0.0, 1.0 - now % 10.0) + service_s

    return {"queue": queue, "stall": stall, "fixed": lambda now: now + service_s}[kind]


async def main() -> None:
    with PreciseClock(time.monotonic()) as clock:
        service = KnownService(law(sys.argv[1], float(sys.argv[2]) / 1000), clock)
        server = await asyncio.get_running_loop().create_server(lambda: Exchange(service), "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await service.answer()


if __name__ == "__main__":
    uvloop.run(main())
