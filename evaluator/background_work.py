"""Computes what a page must not wait for: one task after the other in a thread, each under a key."""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from services.chassis.errors import Unavailable

WAIT_S = 0.6  # of a request for a result that is being computed
KEPT = 16
MOST_WAITING = 4

Key = TypeVar("Key")
Result = TypeVar("Result")


class BackgroundWork(Generic[Key, Result]):
    """Owns the tasks and keeps the last results. Owned by one event loop."""

    def __init__(self) -> None:
        self._tasks: dict[Key, asyncio.Task[Result]] = {}
        self._one_at_a_time = asyncio.Lock()

    def holds(self, key: Key) -> bool:
        """Returns whether work was started under this key, be it at work or done."""
        return key in self._tasks

    def start(self, key: Key, compute: Callable[[], Result]) -> None:
        """Starts work, anew where that of this key has ended; where it has not, it goes on alone.

        Raises Unavailable while as much work waits as may.
        """
        if key in self._tasks and not self._tasks[key].done():
            return
        if sum(not task.done() for task in self._tasks.values()) >= MOST_WAITING:
            raise Unavailable("Other pages are being computed; load this one again in a moment.")
        self._tasks.pop(key, None)  # the newest is the last
        self._tasks[key] = asyncio.create_task(self._computed(compute))
        done = [known for known, task in self._tasks.items() if task.done()]
        for known in done[: max(0, len(self._tasks) - KEPT)]:
            del self._tasks[known]

    async def result(self, key: Key) -> Result | None:
        """Returns what was computed, None while it is not there. Raises what the work raised, once."""
        task = self._tasks[key]
        await asyncio.wait({task}, timeout=WAIT_S)
        if not task.done():
            return None
        if task.exception() is not None:
            del self._tasks[key]
        return task.result()

    async def close(self) -> None:
        """Drops the work that waits."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _computed(self, compute: Callable[[], Result]) -> Result:
        async with self._one_at_a_time:
            return await asyncio.to_thread(compute)
