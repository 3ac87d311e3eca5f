"""The order of writes, above every engine: which write of a document is newer, and who may change a generation when."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from services.contracts.documents import ItemError

# A write is on its way for at most the longest deadline, two minutes.
REMEMBERED_S = 600.0
# Versions kept at 160 bytes each. What is forgotten earlier makes an old write fail that nothing overtook, never the
# other way round.
MOST_REMEMBERED = 50_000

T = TypeVar("T")


def overtaken(document_id: str) -> ItemError:
    """The report of a document whose write came later than a newer one."""
    reason = "A newer write of this id was taken meanwhile; send it again if it is to take that one's place."
    return ItemError(id=document_id, reason=reason, retryable=True)


@dataclass(frozen=True, slots=True)
class Write:
    """What a write says of itself: where it goes, its version (None: newer than all before), and whose build it is
    for (None: anybody's)."""

    generation: str
    version: int | None = None
    build: str | None = None


class Turn:
    """A write's turn: until it ends, nobody else writes its ids, and its generation neither goes nor comes."""

    def __init__(self, memory: "_Memory", ids: Collection[str], version: int) -> None:
        self._memory = memory
        self.version = version
        self.overtaken = {one: newer for one in ids if (newer := memory.latest(one)) >= version}

    @property
    def latest_version(self) -> int | None:
        """The highest version among those that overtook this write."""
        return max(self.overtaken.values(), default=None)

    def took(self, ids: Iterable[str]) -> None:
        """The write of these ids is done (a deletion too): older ones come too late from now on."""
        self._memory.remember(ids, self.version)


class WriteOrder:
    """Remembers the latest version of each id by generation, for REMEMBERED_S at least or MOST_REMEMBERED ids.

    Only this process's: what several processes write into is ordered by the engine that they share.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        """`clock` gives Unix seconds."""
        self._clock = clock
        self._memories: dict[str, _Memory] = {}

    async def write(self, write: Write, ids: Collection[str], work: Callable[[Turn], Awaitable[T]]) -> T:
        """Runs `work` when nobody else writes any of these ids."""
        memory = self._memory(write.generation)
        memory.users += 1
        try:
            async with memory.changed:
                await memory.changed.wait_for(lambda: not memory.changing and memory.writing.isdisjoint(ids))
                memory.writing.update(ids)
        except BaseException:
            self._left(write.generation, memory)
            raise

        async def alone() -> T:
            try:
                version = write.version or max(int(self._clock() * 1e6), memory.highest + 1)
                return await work(Turn(memory, ids, version))
            finally:
                memory.writing.difference_update(ids)
                await self._over(write.generation, memory)

        return await _to_its_end(alone())

    async def change(self, generation: str, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work`, which makes, publishes or removes the generation, while nobody writes into it."""
        memory = self._memory(generation)
        memory.users += 1
        try:
            async with memory.changed:
                await memory.changed.wait_for(lambda: not memory.changing)
                memory.changing = True
                try:
                    await memory.changed.wait_for(lambda: not memory.writing)
                except BaseException:
                    memory.changing = False
                    memory.changed.notify_all()
                    raise
        except BaseException:
            self._left(generation, memory)
            raise

        async def alone() -> T:
            try:
                return await work()
            finally:
                memory.changing = False
                await self._over(generation, memory)

        return await _to_its_end(alone())

    def forget(self, generation: str) -> None:
        """Forgets the versions of a generation that was removed."""
        self._memory(generation).forget()

    def _memory(self, generation: str) -> "_Memory":
        return self._memories.setdefault(generation, _Memory(self._clock))

    async def _over(self, generation: str, memory: "_Memory") -> None:
        self._left(generation, memory)
        async with memory.changed:
            memory.changed.notify_all()

    def _left(self, generation: str, memory: "_Memory") -> None:
        memory.users -= 1
        if not memory.users and memory.empty:
            self._memories.pop(generation, None)


@dataclass(slots=True)
class _Memory:
    """Of one generation: the versions of late, in two halves of which the older is forgotten as a whole."""

    clock: Callable[[], float]
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    writing: set[str] = field(default_factory=set)
    changing: bool = False
    users: int = 0
    highest: int = 0
    forgotten: int = 0  # the highest version in what was forgotten: everything up to it counts as overtaken
    begun_at: float = 0.0
    # By the hash of an id, which may have 512 bytes: two ids of one hash delay a write, and lose none.
    newer: dict[int, int] = field(default_factory=dict)
    older: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.newer and not self.older and not self.forgotten

    def latest(self, document_id: str) -> int:
        key = hash(document_id)
        return max(self.newer.get(key, 0), self.older.get(key, 0), self.forgotten)

    def remember(self, ids: Iterable[str], version: int) -> None:
        now = self.clock()
        if not self.newer:
            self.begun_at = now
        if len(self.newer) >= MOST_REMEMBERED or now - self.begun_at > REMEMBERED_S:
            self.forgotten = max(self.forgotten, max(self.older.values(), default=0))
            self.older, self.newer, self.begun_at = self.newer, {}, now
        self.newer.update(dict.fromkeys(map(hash, ids), version))
        self.highest = max(self.highest, version)

    def forget(self) -> None:
        self.newer, self.older, self.forgotten, self.highest = {}, {}, 0, 0


async def _to_its_end(work: Awaitable[T]) -> T:
    """Waits for work that goes on when the caller leaves: an engine does not stop in the middle of a write, and what
    is written next must come after it."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)
