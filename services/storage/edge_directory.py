"""A directory of Edge generations: opened, begun, published, removed. Owns the lock, the threads and the quotas."""

import asyncio
import importlib.metadata
import logging
import time
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from services.chassis.errors import (
    BadInput,
    Conflict,
    DamagedCollection,
    InsufficientStorage,
    ProblemError,
    UnknownCollection,
)
from services.contracts.collections import Unusable
from services.contracts.generations import in_order, name_of
from services.contracts.health import Check
from services.storage import edge_subprocess
from services.storage.edge_disk_space import Room
from services.storage.edge_errors import edge_errors
from services.storage.edge_files import PUBLISHED, Record, locked, read_pointers, write_pointers
from services.storage.edge_folders import move_aside, ours, remove
from services.storage.edge_generation import EdgeGeneration, Shape, read_record
from services.storage.quotas import USUAL_MOST, refuse_one_more

ENGINE = f"qdrant-edge {importlib.metadata.version('qdrant-edge-py')}"
logger = logging.getLogger(__name__)

# An indexed field of an empty generation: 9 mapped files (Linux allows a process 65,530), 5 MB of cache and 5 to 10 ms
# of the GIL when it is opened. 256 of them took 17 s to begin, 3.4 s to open, and 1.3 GB.
MOST_FIELDS = 64
MOST_FIELDS_IN_ALL = 4_096


@dataclass(frozen=True, slots=True)
class Limits:
    """What must stay free on the disk, and how many generations there may be."""

    least_free_mb: int = 256
    most_generations: int = USUAL_MOST


USUAL = Limits()


@dataclass(frozen=True, slots=True)
class SetAside:
    """Why a generation could not be opened, and whether room on the disk may be all that it lacked."""

    reason: str
    for_room: bool


class EdgeDirectory:
    """Owns a directory: a folder a generation, and published.json; one process a directory.

    A generation that cannot be opened is set aside, named, and left as it is on the disk; the others serve.
    """

    def __init__(self, directory: Path, shape: Shape, limits: Limits, threads: int) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable when it is in use."""
        self._directory = directory
        self._shape = shape
        self._limits = limits
        self._lock = locked(directory)
        try:
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="edge")
            self._room = Room(directory, limits.least_free_mb)
            self._open: dict[str, EdgeGeneration] = {}
            self._unusable: dict[str, SetAside] = {}
            self._open_folders(ours(directory))
            self._pointers, self._lost_pointers = _pointers_of(directory)
        except BaseException:
            self._lock.close()
            raise
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        self._opening_again = False

    def check(self, name: str) -> Check:
        """An open directory stays usable; says what is set aside and whether writes are refused."""
        said = [f"{ENGINE} in {self._directory}"]
        said += [f"{one.generation} cannot be opened: {one.reason}" for one in self._listed_unusable()]
        if self._lost_pointers is not None:
            said.append(f"nothing was known to be published, because {self._lost_pointers}: publish again")
        shortage = self._room.shortage()
        if shortage is not None:
            said.append(f"writes are refused: {shortage}")
        return Check(name=name, ok=True, detail="; ".join(said))

    def generations(self) -> tuple[str, ...]:
        """Every generation that is open, by name and number."""
        return in_order(tuple(self._open))

    def unusable(self) -> tuple[Unusable, ...]:
        """Every generation that could not be opened, and why. Begins to open those again that only lacked room."""
        self._open_those_that_lacked_room()
        return self._listed_unusable()

    def published(self) -> Mapping[str, str]:
        """The published generation of each name."""
        return {name: one for name, one in self._pointers.items() if one in self._open or one in self._unusable}

    def is_published(self, generation: str) -> bool:
        """Whether it is the published generation of its name."""
        return self.published().get(name_of(generation)) == generation

    def held(self, generation: str) -> EdgeGeneration:
        """An open generation. Raises UnknownCollection, or DamagedCollection for one that could not be opened."""
        if generation in self._open:
            return self._open[generation]
        aside = self._unusable.get(generation)
        if aside is not None and aside.for_room:
            raise InsufficientStorage(
                f"{generation} could not be opened: {aside.reason} Free some of the disk; it is then opened within "
                "seconds."
            )
        if aside is not None:
            raise DamagedCollection(
                f"{generation} cannot be opened here: {aside.reason} Its files are untouched in "
                f"{self._directory / generation}: restore them and start the service anew, or remove the generation "
                "and load it again. Waiting does not help."
            )
        raise UnknownCollection(f"There is no collection {generation} here; begin it first.")

    async def begin(self, record: Record) -> Record:
        """Begins an empty generation unless it is held; the record of the one that is. When the caller gives up, it
        goes on."""
        if record.generation not in self._open:
            await self._to_the_end(self._create(record))
        return self.held(record.generation).record

    async def finish(self, generation: str) -> None:
        """Optimises it in another process; searches go on meanwhile, writes wait."""
        await self.held(generation).finish(self._shape)

    async def publish(self, generation: str) -> None:
        """Records the time, then replaces published.json; does nothing for what is published."""
        async with self._changing:
            held = self.held(generation)
            if self._pointers.get(name_of(generation)) != generation or held.record.published_at is None:
                await held.published(time.time())
                await asyncio.to_thread(self._point, {**self.published(), name_of(generation): generation})

    async def drop(self, generation: str) -> None:
        """Removes a generation, also one that cannot be opened. When the caller gives up, it goes on."""
        await self._to_the_end(self._drop(generation))

    async def close(self) -> None:
        """Closes every shard and gives the directory free; twice is as good as once."""
        if self._lock.closed:
            return
        try:
            await asyncio.gather(*self._changes, return_exceptions=True)
            for opened in self._open.values():
                try:
                    await opened.close()
                except ProblemError:
                    logger.warning("not closed", extra={"generation": opened.record.generation}, exc_info=True)
            self._open.clear()
        finally:
            self._threads.shutdown()
            self._lock.close()

    def _listed_unusable(self) -> tuple[Unusable, ...]:
        return tuple(
            Unusable(generation=one, reason=self._unusable[one].reason) for one in in_order(tuple(self._unusable))
        )

    def _open_those_that_lacked_room(self) -> None:
        """Begins the opening if there is room again. Does not wait for it."""
        if not any(one.for_room for one in self._unusable.values()) or self._opening_again:
            return
        if self._room.shortage() is None and not self._lock.closed:
            self._opening_again = True
            self._begun(self._open_again())

    async def _open_again(self) -> None:
        try:
            async with self._changing:
                waiting = [one for one, aside in self._unusable.items() if aside.for_room]
                await asyncio.to_thread(self._open_folders, [self._directory / one for one in waiting])
                for one in waiting:
                    if one in self._open:
                        del self._unusable[one]
                        logger.info("opened after all", extra={"generation": one})
        finally:
            self._opening_again = False

    def _open_folders(self, folders: Sequence[Path]) -> None:
        """Opens these generations, or sets them aside (blocking)."""
        with self._room.reserved_for_opening():
            records: dict[Path, Record] = {}
            for folder in folders:
                try:
                    record = read_record(folder)
                    self._shape.check(record)
                    records[folder] = record
                except (ValueError, OSError) as error:
                    self._set_aside(folder.name, str(error))
            damages = edge_subprocess.damages(
                {
                    folder / record.shard: record.documents if record.finished else None
                    for folder, record in records.items()
                }
            )
            for folder, record in records.items():
                reason = damages.get(folder / record.shard)
                if reason is not None:
                    self._set_aside(folder.name, reason)
                    continue
                try:
                    self._open[folder.name] = EdgeGeneration.open(
                        folder, record, self._shape, self._room, self._threads
                    )
                except ProblemError as error:
                    self._set_aside(folder.name, error.detail)

    def _set_aside(self, generation: str, reason: str) -> None:
        shortage = self._room.shortage()
        reason = f"{reason.rstrip('. ')}." + (f" {shortage}" if shortage else "")
        self._unusable[generation] = SetAside(reason, for_room=shortage is not None)
        logger.error("set aside", extra={"generation": generation, "reason": reason})

    async def _create(self, record: Record) -> None:
        async with self._changing:
            generation = record.generation
            if generation in self._open:
                return
            if generation in self._unusable:
                self.held(generation)
            self._refuse_too_many(record)
            self._room.require()
            if generation in self._pointers.values():  # left by a removal that could not write: it is not published
                await asyncio.to_thread(self._point, self.published())
            folder = self._directory / generation
            # Not in the threads of the shards, where searches would wait for all of it.
            self._open[generation] = await asyncio.to_thread(
                EdgeGeneration.create, folder, record, self._shape, self._room, self._threads
            )

    def _refuse_too_many(self, record: Record) -> None:
        fields = len(record.declaration.metadata)
        if fields > MOST_FIELDS:
            raise BadInput(
                f"metadata: {fields} fields are declared, and the embedded engine takes {MOST_FIELDS}. Declare those "
                "that are filtered by; the others are kept and shown all the same."
            )
        held = [opened.record for opened in self._open.values()]
        there = (*self._open, *self._unusable)
        refuse_one_more(record.generation, there, self.published().values(), self._limits.most_generations)
        in_all = sum(len(one.declaration.metadata) for one in held)
        if in_all + fields > MOST_FIELDS_IN_ALL:
            raise Conflict(
                f"The generations here index {in_all} fields, and {MOST_FIELDS_IN_ALL} may be: remove a collection "
                "that is not needed any more, or declare fewer fields."
            )

    async def _drop(self, generation: str) -> None:
        async with self._changing:
            if generation in self._unusable:
                with edge_errors():
                    gone = await asyncio.to_thread(move_aside, self._directory / generation)
                del self._unusable[generation]
            else:
                gone = await self.held(generation).leave()
                del self._open[generation]
            # Now it is gone. A pointer to what is not there counts for nothing, should this fail.
            if generation in self._pointers.values():
                try:
                    await asyncio.to_thread(self._point, self.published())
                except ProblemError:
                    logger.warning("still in published.json", extra={"generation": generation}, exc_info=True)
        await asyncio.to_thread(remove, gone)

    def _point(self, pointers: Mapping[str, str]) -> None:
        try:
            with edge_errors():
                write_pointers(self._directory, pointers)
        finally:
            # A write that failed at its last step may be there: what is served is what the next start will read.
            self._pointers = read_pointers(self._directory)

    async def _to_the_end(self, change: Coroutine[None, None, None]) -> None:
        await asyncio.shield(self._begun(change))

    def _begun(self, change: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return task


def _pointers_of(directory: Path) -> tuple[dict[str, str], str | None]:
    """What is published, and what is wrong with the file, which is then kept under another name."""
    try:
        return read_pointers(directory), None
    except (ValueError, OSError) as error:
        logger.error("published.json cannot be read", exc_info=error)
        kept = (directory / PUBLISHED).rename(directory / f"{PUBLISHED}.damaged")
        return {}, f"{PUBLISHED} was damaged (it is kept as {kept.name})"
