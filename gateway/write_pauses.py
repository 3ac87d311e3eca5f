"""Owns the pauses of this gateway's writes to a collection, in which its services can be compared.

Knows neither what is written nor other gateways.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager


class WritePauses:
    """Counts the writes in work by collection. While a collection is paused, its new writes wait."""

    def __init__(self) -> None:
        self._writing: Counter[str] = Counter()
        self._pausing: Counter[str] = Counter()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def write(self, name: str) -> AsyncIterator[None]:
        """A write of this collection: begins when nobody pauses it."""
        await self._until(lambda: not self._pausing[name])
        with self._counted(self._writing, name):
            yield

    @asynccontextmanager
    async def pause(self, name: str, most_s: float) -> AsyncIterator[None]:
        """Begins when the writes in work have ended, or after `most_s` seconds.

        New writes wait until the block ends, and no longer than `most_s` in any case: they have deadlines of their own.
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
