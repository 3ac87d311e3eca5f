"""Orders this gateway's writes: their versions, their pauses while services are compared, and one lock a collection.

Several gateways are not kept apart: services compare builds and versions for that.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from weakref import WeakValueDictionary


class WriteClock:
    """A hybrid logical clock: microseconds since 1970, strictly increasing, above every version it was advanced to."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` returns Unix seconds; it may stand still or go back."""
        self._clock = clock
        self._last = 0

    def next(self) -> int:
        """Returns a version above all earlier ones."""
        self._last = max(int(self._clock() * 1e6), self._last + 1)
        return self._last

    def advance(self, version: int | None) -> None:
        """Continues above a version that another gateway assigned."""
        self._last = max(self._last, version or 0)


class WritePauses:
    """Counts the running writes of each collection. New writes to a paused collection wait."""

    def __init__(self) -> None:
        self._writing: Counter[str] = Counter()
        self._pausing: Counter[str] = Counter()
        self._ends: dict[str, set[asyncio.Event]] = {}
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def write(self, name: str) -> AsyncIterator[None]:
        """Counts the block as a write. Waits first until the collection is not paused."""
        await self._until(lambda: not self._pausing[name])
        ended = asyncio.Event()
        running = self._ends.setdefault(name, set())
        running.add(ended)
        try:
            with self._counted(self._writing, name):
                yield
        finally:
            ended.set()
            running.discard(ended)
            if not running and self._ends.get(name) is running:
                del self._ends[name]

    async def settled(self, name: str) -> None:
        """Waits until the writes that run now have ended. Later ones run meanwhile."""
        for ended in tuple(self._ends.get(name, ())):
            await ended.wait()

    @asynccontextmanager
    async def pause(self, name: str, most_s: float) -> AsyncIterator[None]:
        """Pauses writes. The block begins when the running ones have ended, or after `most_s` seconds.

        New writes wait until the block ends, but at most `most_s`: they have deadlines of their own.
        """
        with contextlib.ExitStack() as pausing:
            pausing.enter_context(self._counted(self._pausing, name))
            timer = asyncio.get_running_loop().call_later(most_s, pausing.close)
            pausing.callback(timer.cancel)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(most_s):
                    await self._until(lambda: not self._writing[name])
            yield

    async def _until(self, free: Callable[[], bool]) -> None:
        while not free():
            await self._changed.wait()

    @contextmanager
    def _counted(self, counts: Counter[str], name: str) -> Iterator[None]:
        counts[name] += 1
        try:
            yield
        finally:
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
            self._changed.set()
            self._changed = asyncio.Event()


class CollectionLocks:
    """Holds the locks in use, so that generations of a collection are begun, switched and removed one at a time."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def of(self, name: str) -> asyncio.Lock:
        """Returns the lock of a collection."""
        return self._locks.setdefault(name, asyncio.Lock())
