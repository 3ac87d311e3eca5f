"""Owns the pauses of this gateway's writes to a collection, during which its services are compared.

Leaves the writes themselves, and those of other gateways, to others.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


class WritePauses:
    """Counts the running writes of each collection. New writes to a paused collection wait."""

    def __init__(self) -> None:
        self._writing: Counter[str] = Counter()
        self._pausing: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def write(self, name: str) -> AsyncIterator[None]:
        """Counts the block as a write. Waits first until the collection is not paused."""
        await self._until(lambda: not self._pausing[name])
        with self._counted(self._writing, name):
            yield

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
