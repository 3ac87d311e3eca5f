"""One generation of an Edge directory: its record, its open shard, and who may touch it when."""

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge

from services.chassis.errors import ProblemError, UnknownCollection
from services.storage import edge_subprocess
from services.storage.content_digest import ContentDigest
from services.storage.edge_disk_space import Room, taken
from services.storage.edge_errors import edge_errors
from services.storage.edge_files import LAYOUT, RECORD, Record, holds, replace, sync
from services.storage.edge_folders import MARKER, lay_claim, move_aside, remove, settle_claim
from services.storage.edge_pages import FIRST_PAGE, Page, payload_page

T = TypeVar("T")
Shard = edge.EdgeShard

# Edge's own default is 8 threads a shard on 2 cores. Shards have one segment or two, and 100 empty ones had 800.
SEARCH_THREADS = 1
# Edge merges a segment of at least 1,000 points once a fifth of them is deleted: fewer deletions never suffice.
VACUUM_FROM = 200
# What an optimisation needs beside the shard: its copy, and what is built of that before the copy's own goes.
COPIES = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """What the shards of an engine are like, and the points from which an index may be built (None: never).

    `check` raises ValueError, in words that can be shown, for a record that the engine cannot read.
    """

    config: Callable[[Record], edge.EdgeConfig]
    indexes: Callable[[Record], Sequence[edge.UpdateOperation]]
    points_to_index: Callable[[Record], int] | None = None
    check: Callable[[Record], object] = lambda record: None


def read_record(folder: Path) -> Record:
    """A generation's record. Raises ValueError in words that can be shown."""
    try:
        if not (folder / RECORD).is_file():
            raise ValueError("it is no file")  # a pipe would be waited for
        record = Record.model_validate_json((folder / RECORD).read_bytes())
    except ValueError as error:
        raise ValueError(f"its {RECORD} cannot be read: {' '.join(str(error).split())[:200]}") from error
    if record.layout != LAYOUT:
        raise ValueError(f"it has the layout {record.layout}, this program reads {LAYOUT}.")
    if record.generation != folder.name:
        raise ValueError(f"its {RECORD} is that of {record.generation}.")
    if not (folder / record.shard).is_dir():
        raise ValueError(f"its folder {record.shard} is not there.")
    return record


class EdgeGeneration:
    """Reads run beside each other; writes one at a time; it is optimised as a copy, which then takes over."""

    def __init__(self, folder: Path, record: Record, shard: Shard, room: Room, threads: Executor) -> None:
        self.record = record
        self._folder = folder
        self._shard = shard
        self._room = room
        self._threads = threads
        self._running: set[Future[Any]] = set()
        self._writing = asyncio.Lock()
        self._finishing: asyncio.Task[None] | None = None
        self._closed = False
        # Deleted since it was last optimised; what was deleted before it was opened is not known.
        self._deleted = 0 if record.finished else VACUUM_FROM
        # The record was replaced, but its folder could not be synced: a power cut could bring the old one back.
        self._unsynced = False
        self._recording = threading.Lock()

    @classmethod
    def open(cls, folder: Path, record: Record, shape: Shape, room: Room, threads: Executor) -> "EdgeGeneration":
        """Opens what its record names (blocking). Raises UpstreamFailed or InsufficientStorage."""
        with edge_errors():
            if (folder / MARKER).exists():  # of a creation that was killed between its last two steps
                settle_claim(folder)
            for left in folder.glob("shard*"):  # of an optimisation that did not come to its end
                if left.name != record.shard and left.is_dir():
                    shutil.rmtree(left)
            shard = _load(folder / record.shard, shape, record)
            indexes = shape.indexes(record)
            if len(shard.info().payload_schema) < len(indexes):  # damage: every search that needs one would fail
                for index in indexes:
                    shard.update(index)
            return cls(folder, record, shard, room, threads)

    @classmethod
    def create(cls, folder: Path, record: Record, shape: Shape, room: Room, threads: Executor) -> "EdgeGeneration":
        """Lays out an empty generation (blocking): a marker first, the record last, so that a half-made one is known
        as such. Leaves nothing behind when it fails."""
        with edge_errors():
            lay_claim(folder)
            try:
                shard = Shard.create(str(folder / record.shard), shape.config(record))
                try:
                    # One call each: Edge holds the GIL, and 64 fields take 1.8 s.
                    for index in shape.indexes(record):
                        shard.update(index)
                    shard.flush()
                    replace(folder / RECORD, record.model_dump_json(indent=1))
                    settle_claim(folder)
                except BaseException:
                    shard.close()
                    raise
            except BaseException:
                remove(folder)
                raise
            return cls(folder, record, shard, room, threads)

    async def read(self, work: Callable[[Shard], T]) -> T:
        """Runs `work` on the shard, in a thread."""
        return await self._run(lambda: work(self._shard))

    async def write(self, work: Callable[[Shard], T]) -> T:
        """Runs `work` on the shard, in a thread, alone among the writers. Waits while a copy is being optimised.

        Raises InsufficientStorage when there is too little room on the disk.
        """
        async with self._writing:
            self._room.require()
            await self._run(self._settle)
            if self.record.finished:
                await self._run(lambda: self._keep(finished=False))
            return await self._run(lambda: work(self._shard))

    def deleted(self, points: int) -> None:
        """Counts what a write has deleted: many deletions are worth an optimisation."""
        self._deleted += points

    async def digest(self, key: str) -> str:
        """The digest of all ids and content hashes (under `key` of the payload), read page by page, so that searches
        get their turns in between."""
        digest = ContentDigest()
        page: Page | None = FIRST_PAGE
        while page is not None:
            pairs, following = await self.read(partial(payload_page, key=key, page=page))
            digest.add(pairs)
            page = following
        return digest.hexdigest()

    async def published(self, at: float) -> None:
        """Records that it becomes the published one at this moment (Unix seconds)."""
        await self._run(lambda: self._keep(published_at=at))

    async def finish(self, shape: Shape) -> None:
        """Optimises what is worth it. When the caller gives up, it goes on, and the next call waits for it."""
        if self._finishing is None or self._finishing.done():
            self._finishing = asyncio.create_task(self._finish(shape))
        finishing = self._finishing
        try:
            await asyncio.shield(finishing)
        except asyncio.CancelledError:
            if self._closed and finishing.cancelled():  # by its removal, not by the caller
                raise UnknownCollection(f"The collection {self.record.generation} is being removed.") from None
            raise

    async def close(self) -> None:
        """Waits for the threads that are at it, then lets the shard go."""
        await self._quiet()
        with edge_errors():
            self._shard.close()

    async def leave(self) -> Path:
        """Closes it and moves its folder aside; where that is now. When it cannot be moved, everything is as before."""
        await self._quiet()
        try:
            with edge_errors():
                gone = move_aside(self._folder)
        except ProblemError:
            self._closed = False
            raise
        with contextlib.suppress(ProblemError), edge_errors():
            self._shard.close()
        return gone

    async def _quiet(self) -> None:
        """Lets nothing more begin, and waits for what has."""
        self._closed = True
        if self._finishing is not None:
            self._finishing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ProblemError):
                await self._finishing
        await self._idle()

    async def _run(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise UnknownCollection(f"The collection {self.record.generation} is being removed.")

        def guarded() -> T:
            with edge_errors():
                return work()

        future = self._threads.submit(guarded)
        # A cancelled caller leaves, its thread does not: whoever closes the shard must wait for the thread.
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    async def _idle(self) -> None:
        """Waits for the threads that are at it now (not for later ones: under load there are always some)."""
        await asyncio.gather(*(asyncio.wrap_future(future) for future in self._running), return_exceptions=True)

    async def _finish(self, shape: Shape) -> None:
        async with self._writing:
            if self.record.finished:
                return
            self._room.require()
            await self._run(self._settle)
            await self._run(self._shard.flush)
            await self._idle()
            points = (await self._run(self._shard.info)).points_count
            to_index = None if shape.points_to_index is None else shape.points_to_index(self.record)
            if (to_index is not None and points >= to_index) or self._deleted >= VACUUM_FROM:
                await self._optimise(shape)
            documents = await self._run(lambda: self._shard.count(edge.CountRequest(exact=True)))
            await self._run(lambda: self._keep(finished=True, documents=documents))

    async def _optimise(self, shape: Shape) -> None:
        """Optimises a copy of the shard in another process, then puts it in the place of the one that served."""
        old = self._folder / self.record.shard
        new = self._folder / f"shard-{int(self.record.shard.removeprefix('shard').removeprefix('-') or 0) + 1}"
        self._room.require(COPIES * await asyncio.to_thread(taken, old))
        served: Shard | None = None
        try:
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)  # of one that failed
            if await edge_subprocess.optimise(old, new):
                served = await self._run(lambda: self._take_over(new, shape))
        finally:
            await self._idle()
            if self.record.shard != new.name:
                await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        self._deleted = 0
        if served is not None:
            with edge_errors():
                served.close()
            if not self._unsynced:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)

    def _take_over(self, new: Path, shape: Shape) -> Shard:
        """Opens the new shard, names it in the record, and only then has it serve; gives back the one that did.

        Whatever fails, the shard that serves is the one that the record names: a write to another would be lost.
        """
        sync(self._folder)
        shard = _load(new, shape, self.record)
        try:
            self._keep(shard=new.name)
        except BaseException:
            shard.close()
            raise
        served, self._shard = self._shard, shard
        return served

    def _keep(self, **changes: object) -> None:
        """Writes the record with these changes. When it raises, the record on the disk is the one that was."""
        with self._recording:
            record = self.record.model_copy(update=changes)
            text = record.model_dump_json(indent=1)
            try:
                replace(self._folder / RECORD, text)
            except OSError:
                if not holds(self._folder / RECORD, text):
                    raise
                self._unsynced = True
            self.record = record

    def _settle(self) -> None:
        """Nothing is written under a record that a power cut could take back."""
        if self._unsynced:
            sync(self._folder)
            self._unsynced = False


def _load(path: Path, shape: Shape, record: Record) -> Shard:
    # A configuration that is given is written to the disk, which may be full: only where it would change something.
    held = json.loads((path / "edge_config.json").read_text(encoding="utf-8"))
    if held.get("max_search_threads") == SEARCH_THREADS:
        return Shard.load(str(path))
    return Shard.load(str(path), shape.config(record))
