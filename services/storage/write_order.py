"""Orders writes of documents and publications of collections for every engine; serialises generation changes."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from services.contracts.documents import COPIED_VERSION, ItemError

# A write is in flight for at most the longest deadline, two minutes.
REMEMBERED_S = 600.0
# Versions of deletions kept, 160 bytes each. Dropping one may refuse an old write, but never accepts an overtaken one.
MOST_REMEMBERED = 50_000

T = TypeVar("T")


def overtaken(document_id: str) -> ItemError:
    """Returns the error of a document whose write arrived after a newer one."""
    reason = "A newer write of this id was taken; send this one again only if it is to take that one's place."
    return ItemError(id=document_id, reason=reason, overtaken=True)


def newer_versions(held: Mapping[str, int], version: int | None) -> dict[str, int]:
    """Returns, by id, the stored versions that a write of this version must not replace."""
    return {} if version is None else {identity: stored for identity, stored in held.items() if stored >= version}


def next_publication(wanted: int | None, others: Iterable[int | None]) -> int:
    """Returns the number of a publication: the `wanted` one, but above those of the collection's `others`."""
    return max(wanted or 0, 1 + max((number or 0 for number in others), default=0))


@dataclass(frozen=True, slots=True)
class Write:
    """The generation of a write, its version (None: newer than all before), and its build (None: any)."""

    generation: str
    version: int | None = None
    build: str | None = None


class WriteTurn:
    """A write's exclusive access to its ids. Until it ends, its generation is not created, published or removed.

    `overtaken`: the versions of newer deletions, by id.
    """

    def __init__(self, memory: "_RecentDeletions", ids: Collection[str], version: int) -> None:
        self._memory = memory
        self.version = version
        self.overtaken = {identity: newer for identity in ids if (newer := memory.latest(identity, version)) >= version}

    def record_deleted(self, ids: Iterable[str]) -> None:
        """Records that these ids are deleted: older writes are refused from now on."""
        self._memory.remember(ids, self.version)


class WriteOrder:
    """Runs the writes of an id in turn. Keeps the versions of deleted ids by generation, for at least REMEMBERED_S or
    MOST_REMEMBERED ids; those of documents are kept by the engine, also for other processes.
    """

    def __init__(self, clock: Callable[[], float] = time.time, elapsed: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns Unix seconds, `elapsed` seconds that never go back."""
        self._clock, self._elapsed = clock, elapsed
        self._memories: dict[str, _RecentDeletions] = {}

    async def write(self, write: Write, ids: Collection[str], work: Callable[[WriteTurn], Awaitable[T]]) -> T:
        """Runs `work` while no other write has any of these ids."""
        memory = self._memory(write.generation)
        memory.users += 1
        try:
            async with memory.changed:
                await memory.changed.wait_for(lambda: not memory.changing and memory.writing.isdisjoint(ids))
                memory.writing.update(ids)
        except BaseException:
            self._release(write.generation, memory)
            raise

        async def alone() -> T:
            try:
                version = write.version or max(int(self._clock() * 1e6), memory.highest + 1)
                memory.highest = max(version, memory.highest)
                return await work(WriteTurn(memory, ids, version))
            finally:
                memory.writing.difference_update(ids)
                await self._end(write.generation, memory)

        return await _shielded(alone())

    async def change(self, generation: str, work: Callable[[], Awaitable[T]]) -> T:
        """Runs `work`, which creates, publishes or removes the generation, while no write to it runs."""
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
            self._release(generation, memory)
            raise

        async def alone() -> T:
            try:
                return await work()
            finally:
                memory.changing = False
                await self._end(generation, memory)

        return await _shielded(alone())

    def forget(self, generation: str) -> None:
        """Drops the versions of a generation that was removed."""
        self._memory(generation).forget()

    def _memory(self, generation: str) -> "_RecentDeletions":
        return self._memories.setdefault(generation, _RecentDeletions(self._elapsed))

    async def _end(self, generation: str, memory: "_RecentDeletions") -> None:
        self._release(generation, memory)
        async with memory.changed:
            memory.changed.notify_all()

    def _release(self, generation: str, memory: "_RecentDeletions") -> None:
        memory.users -= 1
        if not memory.users and memory.empty:
            self._memories.pop(generation, None)


@dataclass(slots=True)
class _RecentDeletions:
    """The recent deletions of one generation, in two halves; the older half is dropped as a whole."""

    elapsed: Callable[[], float]
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)
    writing: set[str] = field(default_factory=set)
    changing: bool = False
    users: int = 0
    highest: int = 0
    forgotten: int = 0  # the highest dropped version: writes up to it count as overtaken
    begun_at: float = 0.0
    # By the hash of an id, which may have 512 bytes. Two ids of one hash can delay a write, but lose none.
    newer: dict[int, int] = field(default_factory=dict)
    older: dict[int, int] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        return not self.highest

    def latest(self, document_id: str, version: int) -> int:
        """Returns the latest deletion that a write of this version must not undo; 0 without any."""
        key = hash(document_id)
        # A copy is older than every deletion, of whatever id.
        forgotten = 0 if version == COPIED_VERSION else self.forgotten
        return max(self.newer.get(key, 0), self.older.get(key, 0), forgotten)

    def remember(self, ids: Iterable[str], version: int) -> None:
        now = self.elapsed()
        if not self.newer:
            self.begun_at = now
        if len(self.newer) >= MOST_REMEMBERED or now - self.begun_at > REMEMBERED_S:
            self.forgotten = max(self.forgotten, max(self.older.values(), default=0))
            self.older, self.newer, self.begun_at = self.newer, {}, now
        self.newer.update(dict.fromkeys(map(hash, ids), version))

    def forget(self) -> None:
        self.newer, self.older, self.forgotten, self.highest = {}, {}, 0, 0


async def _shielded(work: Awaitable[T]) -> T:
    """Waits for work that outlives its caller: an engine does not stop within a write, and the next must come after."""
    task = asyncio.ensure_future(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await asyncio.shield(task)
