"""Bounds concurrency: limits running and waiting requests in each lane, and refuses more with 429."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.errors import Overloaded
from services.chassis.handling import Lane, handling_of
from services.chassis.instruments import Instruments
from services.chassis.settings import CONTROL_SLOTS, ServiceSettings
from services.chassis.telemetry import PROBES, timed

CONTROL_WAITING = 64
# Iterations of the event loop from a disconnect to the end of the waiting request: watcher, cancellation, wait.
LOOP_ITERATIONS = 4


class Limiter:
    """Admits at most `in_flight` requests at once, and queues `waiting` more in the order of arrival."""

    def __init__(self, in_flight: int, waiting: int, instruments: Instruments) -> None:
        self._slots = asyncio.Semaphore(in_flight)
        self._most_waiting = waiting
        self._waiting = 0
        self._instruments = instruments

    @property
    def _full(self) -> bool:
        return self._slots.locked() and self._waiting >= self._most_waiting

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Holds a slot, after waiting for one. Raises Overloaded at once if the queue is full."""
        for _ in range(LOOP_ITERATIONS):  # requests whose caller has just disconnected still count
            if not self._full:
                break
            await asyncio.sleep(0)
        if self._full:
            self._instruments.rejected.inc()
            raise Overloaded("Too many requests are waiting; try again after the seconds in Retry-After.")
        self._waiting += 1
        try:
            with timed("wait"):
                await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._instruments.in_flight.inc()
        try:
            yield
        finally:
            self._slots.release()
            self._instruments.in_flight.dec()


def lanes_of(settings: ServiceSettings, instruments: Instruments) -> Mapping[Lane, Limiter]:
    """Returns the limiter of each lane."""
    return {
        "control": Limiter(CONTROL_SLOTS, CONTROL_WAITING, instruments),
        "write": Limiter(settings.write_slots, settings.max_waiting, instruments),
        "work": Limiter(settings.max_in_flight, settings.max_waiting, instruments),
    }


class LimitMiddleware:
    """Gives every request a slot of its lane, except the probes: a full service must still answer them."""

    def __init__(self, app: ASGIApp, *, lanes: Mapping[Lane, Limiter]) -> None:
        self.app = app
        self.lanes = lanes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self.app(scope, receive, send)
            return
        async with self.lanes[handling_of(scope).lane].slot():
            await self.app(scope, receive, send)
