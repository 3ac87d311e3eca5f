"""Opens, begins, publishes and removes Edge generations in a directory. Owns its lock, threads and quotas."""

import asyncio
import importlib.metadata
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from services.chassis import errors
from services.contracts.collections import Unusable
from services.contracts.generations import in_order, name_of
from services.contracts.health import Check
from services.storage import edge_files, edge_subprocess
from services.storage.edge_disk_space import DiskSpace
from services.storage.edge_errors import edge_errors
from services.storage.edge_generation import OWNERS, EdgeGeneration, ShardSchema, read_record
from services.storage.generation_checks import DEFAULT_MOST_GENERATIONS, refuse_one_more
from services.storage.write_order import next_publication

ENGINE = f"qdrant-edge {importlib.metadata.version('qdrant-edge-py')}"
logger = logging.getLogger(__name__)

# An indexed field of an empty generation takes 9 mapped files (Linux allows a process 65,530), 5 MB of cache, and holds
# the GIL for 5 to 10 ms when opened. 256 of them took 17 s to begin, 3.4 s to open, and 1.3 GB.
MOST_FIELDS = 64
MOST_FIELDS_IN_ALL = 4_096


@dataclass(frozen=True, slots=True)
class EdgeLimits:
    """The disk space that must stay free, and the most generations."""

    least_free_mb: int = 256
    most_generations: int = DEFAULT_MOST_GENERATIONS


DEFAULT_LIMITS = EdgeLimits()


@dataclass(frozen=True, slots=True)
class OpeningFailure:
    """Why a generation could not be opened, and whether the only cause may be a full disk."""

    reason: str
    disk_was_full: bool


class EdgeDirectory:
    """Owns a directory: one folder for each generation, and published.json. Only one process may use it.

    A generation that cannot be opened is listed with the reason and left unchanged on the disk; the others serve.
    """

    def __init__(
        self,
        directory: Path,
        schema: ShardSchema,
        limits: EdgeLimits,
        threads: int,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable if it is in use, Conflict if it
        is another service's. `clock` returns Unix seconds."""
        self._clock = clock
        self._directory = directory
        self._schema = schema
        self._limits = limits
        self._lock = edge_files.lock_directory(directory)
        try:
            self._threads = ThreadPoolExecutor(threads, thread_name_prefix="edge")
            self._disk = DiskSpace(directory, limits.least_free_mb)
            self._open: dict[str, EdgeGeneration] = {}
            self._unusable: dict[str, OpeningFailure] = {}
            self._open_folders(edge_files.own_folders(directory))
            self._pointers, self._lost_pointers = _load_pointers(directory)
        except BaseException:
            self._lock.close()
            raise
        self._changing = asyncio.Lock()
        self._changes: set[asyncio.Task[None]] = set()
        self._reopening = False

    def check(self, name: str) -> Check:
        """Returns the state: always usable; names generations that cannot be opened, and whether writes are refused."""
        parts = [f"{ENGINE} in {self._directory}"]
        parts += [f"{unusable.generation} cannot be opened: {unusable.reason}" for unusable in self._list_unusable()]
        if self._lost_pointers is not None:
            parts.append(f"nothing was known to be published, because {self._lost_pointers}: publish again")
        shortage = self._disk.shortage()
        if shortage is not None:
            parts.append(f"writes are refused: {shortage}")
        return Check(name=name, ok=True, detail="; ".join(parts))

    def generations(self) -> tuple[str, ...]:
        """Returns every open generation, by name and number."""
        return in_order(tuple(self._open))

    def unusable(self) -> tuple[Unusable, ...]:
        """Returns every generation that could not be opened, and why. Starts reopening those that lacked disk space."""
        self._start_reopening()
        return self._list_unusable()

    def published(self) -> Mapping[str, str]:
        """Returns the published generation of each collection."""
        held = {*self._open, *self._unusable}
        return {name: generation for name, generation in self._pointers.items() if generation in held}

    def is_published(self, generation: str) -> bool:
        """Returns whether a generation is the published one of its collection."""
        return self.published().get(name_of(generation)) == generation

    def held(self, generation: str) -> EdgeGeneration:
        """Returns an open generation. Raises UnknownCollection, or for one that could not be opened DamagedCollection
        or InsufficientStorage."""
        if generation in self._open:
            return self._open[generation]
        aside = self._unusable.get(generation)
        if aside is not None and aside.disk_was_full:
            raise errors.InsufficientStorage(
                f"{generation} could not be opened: {aside.reason} Free some of the disk; it is then opened within "
                "seconds."
            )
        if aside is not None:
            raise errors.DamagedCollection(
                f"{generation} cannot be opened here: {aside.reason} Its files are untouched in "
                f"{self._directory / generation}: restore them and start the service anew, or remove the generation "
                "and load it again. Waiting does not help."
            )
        raise errors.UnknownCollection(f"There is no collection {generation} here; begin it first.")

    async def begin(self, record: edge_files.GenerationRecord) -> edge_files.GenerationRecord:
        """Begins an empty generation unless it exists; returns its record. Continues when the caller is cancelled."""
        if record.generation not in self._open:
            await self._shielded(self._create(record))
        return self.held(record.generation).record

    async def finish(self, generation: str) -> None:
        """Optimises a generation in a child process. Searches continue meanwhile, writes wait."""
        await self.held(generation).finish(self._schema)

    async def publish(self, generation: str, publication: int | None) -> None:
        """Records time and number, then replaces published.json. Does nothing if the generation is published."""
        async with self._changing:
            held = self.held(generation)
            if self._pointers.get(name_of(generation)) != generation or held.record.published_at is None:
                others = [
                    opened.record.publication
                    for other, opened in self._open.items()
                    if other != generation and name_of(other) == name_of(generation)
                ]
                await held.published(self._clock(), next_publication(publication, others))
                await asyncio.to_thread(self._write_pointers, {**self.published(), name_of(generation): generation})

    async def drop(self, generation: str) -> None:
        """Removes a generation, also one that cannot be opened. Continues when the caller is cancelled."""
        await self._shielded(self._drop(generation))

    async def close(self) -> None:
        """Closes every shard and unlocks the directory. Idempotent."""
        if self._lock.closed:
            return
        try:
            await asyncio.gather(*self._changes, return_exceptions=True)
            for opened in self._open.values():
                try:
                    await opened.close()
                except errors.ProblemError:
                    logger.warning("not closed", extra={"generation": opened.record.generation}, exc_info=True)
            self._open.clear()
        finally:
            self._threads.shutdown()
            self._lock.close()

    def _list_unusable(self) -> tuple[Unusable, ...]:
        return tuple(
            Unusable(generation=generation, reason=self._unusable[generation].reason)
            for generation in in_order(tuple(self._unusable))
        )

    def _start_reopening(self) -> None:
        """Starts reopening, in the background, generations that lacked disk space, if there is enough again."""
        if not any(failure.disk_was_full for failure in self._unusable.values()) or self._reopening:
            return
        if self._disk.shortage() is None and not self._lock.closed:
            self._reopening = True
            self._start(self._reopen())

    async def _reopen(self) -> None:
        try:
            async with self._changing:
                waiting = [generation for generation, aside in self._unusable.items() if aside.disk_was_full]
                await asyncio.to_thread(self._open_folders, [self._directory / generation for generation in waiting])
                for generation in waiting:
                    if generation in self._open:
                        del self._unusable[generation]
                        logger.info("opened after all", extra={"generation": generation})
        finally:
            self._reopening = False

    def _open_folders(self, folders: Sequence[Path]) -> None:
        """Opens generations, or records why one cannot be opened (blocking)."""
        with self._disk.reserve_for_opening():
            records: dict[Path, edge_files.GenerationRecord] = {}
            for folder in folders:
                try:
                    record = read_record(folder)
                    self._refuse_foreign(record)
                    self._schema.check(record)
                    records[folder] = record
                except (ValueError, OSError) as error:
                    self._set_aside(folder.name, str(error))
            find_damage = edge_subprocess.find_damage(
                {
                    folder / record.shard: record.documents if record.finished else None
                    for folder, record in records.items()
                }
            )
            for folder, record in records.items():
                reason = find_damage.get(folder / record.shard)
                if reason is not None:
                    self._set_aside(folder.name, reason)
                    continue
                try:
                    self._open[folder.name] = EdgeGeneration.open(
                        folder, record, self._schema, self._disk, self._threads
                    )
                except errors.ProblemError as error:
                    self._set_aside(folder.name, error.detail)

    def _refuse_foreign(self, record: edge_files.GenerationRecord) -> None:
        """Raises Conflict for a generation of the other service: this one would write its own beside it."""
        own = OWNERS[self._schema.stamp_key]
        owner = next((OWNERS[key] for key in OWNERS if key in record.stamp), own)
        if owner != own:
            raise errors.Conflict(
                f"The directory {self._directory} is that of the {owner} service ({record.generation} is in it): set "
                f"{own.upper()}_DIRECTORY to another one."
            )

    def _set_aside(self, generation: str, reason: str) -> None:
        shortage = self._disk.shortage()
        reason = f"{reason.rstrip('. ')}." + (f" {shortage}" if shortage else "")
        self._unusable[generation] = OpeningFailure(reason, disk_was_full=shortage is not None)
        logger.error("set aside", extra={"generation": generation, "reason": reason})

    async def _create(self, record: edge_files.GenerationRecord) -> None:
        async with self._changing:
            generation = record.generation
            if generation in self._open:
                return
            if generation in self._unusable:
                self.held(generation)
            self._refuse_too_many(record)
            self._disk.require()
            if generation in self._pointers.values():  # a removal could not update the file: it is not published
                await asyncio.to_thread(self._write_pointers, self.published())
            folder = self._directory / generation
            # Not in the threads of the shards, where reads and writes would wait for it.
            self._open[generation] = await asyncio.to_thread(
                EdgeGeneration.create, folder, record, self._schema, self._disk, self._threads
            )

    def _refuse_too_many(self, record: edge_files.GenerationRecord) -> None:
        fields = len(record.declaration.metadata)
        if fields > MOST_FIELDS:
            raise errors.BadInput(
                f"metadata: {fields} fields are declared, and the embedded engine takes {MOST_FIELDS}. Declare those "
                "that are filtered by; the others are kept and shown all the same."
            )
        held = [opened.record for opened in self._open.values()]
        present = (*self._open, *self._unusable)
        refuse_one_more(record.generation, present, self._limits.most_generations)
        in_all = sum(len(record.declaration.metadata) for record in held)
        if in_all + fields > MOST_FIELDS_IN_ALL:
            raise errors.Conflict(
                f"The generations here index {in_all} fields, and {MOST_FIELDS_IN_ALL} may be: remove a collection "
                "that is not needed any more, or declare fewer fields."
            )

    async def _drop(self, generation: str) -> None:
        async with self._changing:
            if generation in self._unusable:
                with edge_errors():
                    gone = await asyncio.to_thread(edge_files.move_aside, self._directory / generation)
                del self._unusable[generation]
            else:
                gone = await self.held(generation).close_and_move_aside()
                del self._open[generation]
            # The generation is removed now. If this fails, a pointer to a missing generation is ignored.
            if generation in self._pointers.values():
                try:
                    await asyncio.to_thread(self._write_pointers, self.published())
                except errors.ProblemError:
                    logger.warning("still in published.json", extra={"generation": generation}, exc_info=True)
        await asyncio.to_thread(edge_files.remove, gone)

    def _write_pointers(self, pointers: Mapping[str, str]) -> None:
        try:
            with edge_errors():
                edge_files.write_pointers(self._directory, pointers)
        finally:
            # A write that failed at its last step may be on the disk: serve what the next start will read.
            self._pointers = edge_files.read_pointers(self._directory)

    async def _shielded(self, change: Coroutine[None, None, None]) -> None:
        await asyncio.shield(self._start(change))

    def _start(self, change: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(change)
        self._changes.add(task)
        task.add_done_callback(self._changes.discard)
        return task


def _load_pointers(directory: Path) -> tuple[dict[str, str], str | None]:
    """Reads what is published. Renames a damaged file and returns what was wrong with it."""
    try:
        return edge_files.read_pointers(directory), None
    except (ValueError, OSError) as error:
        logger.error("published.json cannot be read", exc_info=error)
        kept = (directory / edge_files.PUBLISHED).rename(directory / f"{edge_files.PUBLISHED}.damaged")
        return {}, f"{edge_files.PUBLISHED} was damaged (it is kept as {kept.name})"
