"""Runs coroutines in virtual time: a wait ends at once, and the clock then stands where it would have ended."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from evaluator.load.sending.load_loop import Reply

T = TypeVar("T")


class InstantSelector(selectors.DefaultSelector):
    """Waits for nothing; reports how long it would have waited."""

    def __init__(self, waited: Callable[[float], None]) -> None:
        super().__init__()
        self._waited = waited

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and no timer is set"
        self._waited(max(0.0, timeout))
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is the sum of its waits."""

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(InstantSelector(self._advance))

    def _advance(self, seconds: float) -> None:
        self._now += seconds

    def time(self) -> float:
        return self._now


class VirtualClock:
    """The load loop's clock on a virtual event loop."""

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    async def until(self, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self.now()))


class QueueingServer:
    """One server that works on one request after another, in the order of arrival, each for a fixed time."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s
        self._turn = asyncio.Lock()

    async def __call__(self, number: int) -> Reply:
        async with self._turn:
            await asyncio.sleep(self._service_s)
        return Reply(200, b"")


class StallingServer:
    """A server without a queue that answers nothing for the first second of every ten."""

    def __init__(self, service_s: float) -> None:
        self._service_s = service_s

    async def __call__(self, number: int) -> Reply:
        loop = asyncio.get_running_loop()
        since_stall = loop.time() % 10.0
        await asyncio.sleep(self._service_s + max(0.0, 1.0 - since_stall))
        return Reply(200, b"")


def in_virtual_time(work: Coroutine[Any, Any, T]) -> T:
    """Runs to the end in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)
