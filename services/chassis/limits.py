"""Bounded concurrency: so many requests in work, so many waiting, the next one is told to come back."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

from services.chassis.errors import Overloaded
from services.chassis.instruments import Instruments
from services.chassis.telemetry import PROBES, timed


class Limiter:
    """At most `in_flight` at once and `waiting` behind them (first come, first served)."""

    def __init__(self, in_flight: int, waiting: int, instruments: Instruments) -> None:
        self._slots = asyncio.Semaphore(in_flight)
        self._most_waiting = waiting
        self._waiting = 0
        self._instruments = instruments

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """A place among those in work. Raises Overloaded at once when the queue is full."""
        if self._slots.locked() and self._waiting >= self._most_waiting:
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


class LimitMiddleware:
    """Every request but the probes takes a slot: a full service must still say that it lives."""

    def __init__(self, app: ASGIApp, *, limiter: Limiter) -> None:
        self.app = app
        self.limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self.app(scope, receive, send)
            return
        async with self.limiter.slot():
            await self.app(scope, receive, send)
