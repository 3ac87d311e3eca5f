"""Owns one generation of an Edge directory: its record, its open shard, and the order of access to both."""

import asyncio
import contextlib
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeVar, cast
from uuid import UUID

import qdrant_edge as edge

from services.chassis.errors import ProblemError, UnknownCollection
from services.contracts.content_digest import ContentDigest
from services.contracts.scored import Ranking, paired
from services.files.disk_writes import sync_folder
from services.files.regular_file import read_regular
from services.storage import edge_files, edge_subprocess
from services.storage.edge_disk_space import DiskSize, DiskSpace, disk_usage
from services.storage.edge_errors import edge_errors

# A search forgets the ids of a generation above this: it then reads them again, at the cost of a first search.
MOST_KNOWN_IDS = 50_000


class KnownIds:
    """The caller's ids by the number of their points. A point's id is computed from the caller's id, so none becomes
    stale. Of 116 hits, Edge reads the payloads in 0.6 ms; from here ids take 0.1 ms. For the event loop."""

    def __init__(self) -> None:
        self._ids: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self._ids)

    def ranking(self, shard: edge.EdgeShard, request: edge.QueryRequest) -> Ranking:
        """Returns the hits of a request without payload, in Edge's order: best first, equal scores in any order."""
        points = shard.query(request)
        known = self._ids
        if len(known) > MOST_KNOWN_IDS:
            known.clear()
        ids = cast(list[UUID], [point.id for point in points])
        numbers = [identity.int for identity in ids]
        if unknown := [identity for identity in ids if identity.int not in known]:
            for record in shard.retrieve(list(unknown), with_payload=["id"], with_vector=False):
                if record.payload is not None:
                    known[cast(UUID, record.id).int] = record.payload["id"]
        # A point that was deleted since the query is left out.
        pairs = zip(numbers, points, strict=True)
        return paired((known[number], point.score) for number, point in pairs if number in known)


T = TypeVar("T")
Shard = edge.EdgeShard
# Edge's default is 8 threads per shard on 2 cores: 800 for 100 empty shards. A shard has only one segment or two.
SEARCH_THREADS = 1
# Edge merges a segment of at least 1,000 points once a fifth is deleted, so fewer deletions than this have no effect.
VACUUM_FROM = 200
# Disk space of an optimisation, in sizes of the shard: the copy, and what is built before the copy's segments go.
COPIES = 3
# The service that owns a record, by a key that only its stamps have, in every release.
OWNERS: Mapping[str, str] = {"analysis": "lexical", "model": "dense"}
# 1,000 payloads of two strings take 4 ms, which may delay a search.
PAGE = 1_000


@dataclass(frozen=True, slots=True)
class ShardSchema:
    """Configuration and field indexes of an engine's shards, and the least points for a vector index (None: never).

    `stamp_key`: that of OWNERS in its stamps. `check` raises ValueError, for users, if the engine cannot read a record.
    """

    config: Callable[[edge_files.GenerationRecord], edge.EdgeConfig]
    indexes: Callable[[edge_files.GenerationRecord], Sequence[edge.UpdateOperation]]
    stamp_key: Literal["analysis", "model"]
    points_to_index: Callable[[edge_files.GenerationRecord], int] | None = None
    check: Callable[[edge_files.GenerationRecord], object] = lambda record: None


def read_record(folder: Path) -> edge_files.GenerationRecord:
    """Reads a generation's record. Raises ValueError with a message for users."""
    try:
        record = edge_files.GenerationRecord.from_disk(read_regular(folder / edge_files.RECORD))
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ValueError(f"its {edge_files.RECORD} cannot be read: {' '.join(reason.split())[:200]}") from error
    if record.layout != edge_files.LAYOUT:
        raise ValueError(f"it has the layout {record.layout}, this program reads {edge_files.LAYOUT}.")
    if record.generation != folder.name:
        raise ValueError(f"its {edge_files.RECORD} is that of {record.generation}.")
    if not (folder / record.shard).is_dir():
        raise ValueError(f"its folder {record.shard} is not there.")
    return record


class EdgeGeneration:
    """Runs reads concurrently and writes one at a time. Optimises a copy of the shard, then switches to it."""

    def __init__(
        self, folder: Path, record: edge_files.GenerationRecord, shard: Shard, disk: DiskSpace, threads: Executor
    ) -> None:
        self.record = record
        self.size = DiskSize(folder)
        self.known_ids = KnownIds()
        self._folder = folder
        self._shard = shard
        self._disk = disk
        self._threads = threads
        self._running: set[Future[Any]] = set()
        self._writing = asyncio.Lock()
        self._finishing: asyncio.Task[None] | None = None
        self._closed = False
        self._deleted = self._written = 0  # points since the last optimisation
        # The record was replaced, but its folder could not be synced: a power cut could restore the old record.
        self._unsynced = False
        self._recording = threading.Lock()
        # The digest of what the shard holds; None: not counted since it was opened, or since a write failed midway.
        self._contents: ContentDigest | None = None
        self._changes = 0
        self._changing = threading.Lock()

    @classmethod
    def open(
        cls, folder: Path, record: edge_files.GenerationRecord, schema: ShardSchema, disk: DiskSpace, threads: Executor
    ) -> "EdgeGeneration":
        """Opens the shard that the record names (blocking). Raises UpstreamFailed or InsufficientStorage."""
        with edge_errors():
            if (folder / edge_files.MARKER).exists():  # a creation was killed between its last two steps
                edge_files.confirm_claim(folder)
            for left in folder.glob("shard*"):  # left by an interrupted optimisation
                if left.name != record.shard and left.is_dir():
                    shutil.rmtree(left)
            shard = Shard.load(str(folder / record.shard))
            indexes = schema.indexes(record)
            if len(shard.info().payload_schema) < len(indexes):  # damaged: searches that need a missing one would fail
                for index in indexes:
                    shard.update(index)
            opened = cls(folder, record, shard, disk, threads)
            info = shard.info()
            opened._written = max(0, info.points_count - info.indexed_vectors_count)
            if not record.finished:
                opened._deleted = VACUUM_FROM  # deletions before it was opened are unknown
            return opened

    @classmethod
    def create(
        cls, folder: Path, record: edge_files.GenerationRecord, schema: ShardSchema, disk: DiskSpace, threads: Executor
    ) -> "EdgeGeneration":
        """Creates an empty generation (blocking), marker first and record last, or removes everything if it fails."""
        with edge_errors():
            edge_files.claim_folder(folder)
            try:
                shard = Shard.create(str(folder / record.shard), schema.config(record))
                try:
                    # One call for each field: Edge holds the GIL, and 64 fields take 1.8 s.
                    for index in schema.indexes(record):
                        shard.update(index)
                    shard.flush()
                    edge_files.replace_file(folder / edge_files.RECORD, record.model_dump_json(indent=1))
                    edge_files.confirm_claim(folder)
                except BaseException:
                    shard.close()
                    raise
            except BaseException:
                edge_files.remove(folder)
                raise
            created = cls(folder, record, shard, disk, threads)
            created._contents = ContentDigest()
            return created

    async def read(self, work: Callable[[Shard], T]) -> T:
        """Runs `work` on the shard, in a thread."""
        return await self._run(lambda: work(self._shard))

    async def ranking(self, request: edge.QueryRequest) -> Ranking:
        """Returns the hits of a request. Edge's order: best first, equal scores in any order.

        Edge holds the GIL while it searches: from a thread too it would stop the event loop, and take longer.
        """
        await asyncio.sleep(0)  # others run between two searches of one task
        self._require_open()
        with edge_errors():
            return self.known_ids.ranking(self._shard, request)

    async def write(self, work: Callable[[Shard, ContentDigest], T]) -> T:
        """Runs `work` on the shard, in a thread, excluding other writers. Waits while a copy is being optimised.

        `work` records in the digest what it writes and replaces. Raises InsufficientStorage if too little disk is free.
        """
        async with self._writing:
            self._disk.require()
            await self._run(self._sync_record)
            if self.record.finished:
                await self._run(lambda: self._update_record(finished=False))
            return await self._run(lambda: self._change(work))

    def _change(self, work: Callable[[Shard, ContentDigest], T]) -> T:
        change = ContentDigest()
        with self._changing:
            try:
                result = work(self._shard, change)
            except BaseException:
                self._contents = None  # some of it may be written
                raise
            finally:
                self._changes += 1
            if self._contents is not None:
                self._contents.combine(change)
            return result

    def written(self, points: int) -> None:
        """Counts written points: many make an optimisation of a published generation worthwhile."""
        self._written += points

    def deleted(self, points: int) -> None:
        """Counts deleted points: many deletions make an optimisation worthwhile."""
        self._deleted += points

    async def digest(self, key: str) -> str:
        """Returns the digest of all ids and content hashes (under `key` of the payload), which is kept with the writes.

        The first time after the generation was opened it is counted, page by page, so that searches run in between.
        """
        contents = self._contents
        if contents is None:
            contents = await self._counted_contents(key)
        return contents.hexdigest()

    async def _counted_contents(self, key: str) -> ContentDigest:
        changes, counted = self._changes, ContentDigest()
        first: edge.PointId | None = None
        while True:
            pairs, first = await self.read(partial(_payload_page, key=key, first=first))
            counted.add(pairs)
            if first is None:
                break

        def keep() -> None:
            with self._changing:
                if self._changes == changes:  # no write ended since, so none was counted in part
                    self._contents = counted

        await self._run(keep)
        return counted

    async def published(self, at: float, number: int) -> None:
        """Records the time of publication (Unix seconds) and its number."""
        await self._run(lambda: self._update_record(published_at=at, publication=number))

    async def finish(self, schema: ShardSchema) -> None:
        """Optimises the shard if worthwhile. Continues when the caller is cancelled; the next call waits for it."""
        if self._finishing is None or self._finishing.done():
            self._finishing = asyncio.create_task(self._finish(schema))
        finishing = self._finishing
        try:
            await asyncio.shield(finishing)
        except asyncio.CancelledError:
            if self._closed and finishing.cancelled():  # cancelled by the removal, not by the caller
                raise UnknownCollection(f"The collection {self.record.generation} is being removed.") from None
            raise

    async def close(self) -> None:
        """Waits for running threads, then closes the shard."""
        await self._stop()
        with edge_errors():
            self._shard.close()

    async def close_and_move_aside(self) -> Path:
        """Closes the shard and moves its folder aside. Returns the new path. If the move fails, it serves as before."""
        await self._stop()
        with edge_errors():
            # Before the move: afterwards Edge misses its files, and collects a backtrace for 80 ms of CPU.
            with contextlib.suppress(ProblemError), edge_errors():
                self._shard.close()
            try:
                return edge_files.move_aside(self._folder)
            except OSError:
                self._shard, self._closed = Shard.load(str(self._folder / self.record.shard)), False
                raise

    async def _stop(self) -> None:
        """Refuses new work and waits for running work."""
        self._closed = True
        if self._finishing is not None:
            self._finishing.cancel()
            with contextlib.suppress(asyncio.CancelledError, ProblemError):
                await self._finishing
        await self._wait_for_threads()

    def _require_open(self) -> None:
        if self._closed:
            raise UnknownCollection(f"The collection {self.record.generation} is being removed.")

    async def _run(self, work: Callable[[], T]) -> T:
        self._require_open()

        def guarded() -> T:
            with edge_errors():
                return work()

        future = self._threads.submit(guarded)
        # Cancelling the caller does not stop its thread, so closing the shard must wait for the thread.
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return await asyncio.wrap_future(future)

    async def _wait_for_threads(self) -> None:
        """Waits for the threads running now. Not for later ones: under load there are always some."""
        await asyncio.gather(*(asyncio.wrap_future(future) for future in self._running), return_exceptions=True)

    async def _finish(self, schema: ShardSchema) -> None:
        async with self._writing:
            if self.record.finished:
                return
            self._disk.require()
            await self._run(self._sync_record)
            await self._run(self._shard.flush)
            await self._wait_for_threads()
            points = (await self._run(self._shard.info)).points_count
            to_index = None if schema.points_to_index is None else schema.points_to_index(self.record)
            indexing = to_index is not None and points >= to_index
            if indexing and self.record.published_at is not None:
                # An optimisation copies the whole shard: few changes of a live one are searched without an index.
                indexing = self._written >= max(to_index or 0, VACUUM_FROM)
            if indexing or self._deleted >= VACUUM_FROM:
                await self._optimise()
            documents = await self._run(lambda: self._shard.count(edge.CountRequest(exact=True)))
            await self._run(lambda: self._update_record(finished=True, documents=documents))

    async def _optimise(self) -> None:
        """Optimises a copy of the shard in a child process, then replaces the current shard by it."""
        old = self._folder / self.record.shard
        new = self._folder / f"shard-{int(self.record.shard.removeprefix('shard').removeprefix('-') or 0) + 1}"
        self._disk.require(COPIES * await asyncio.to_thread(disk_usage, old))
        served: Shard | None = None
        try:
            await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)  # left by a failed optimisation
            if await edge_subprocess.optimise(old, new):
                served = await self._run(lambda: self._switch_to(new))
        finally:
            await self._wait_for_threads()
            if self.record.shard != new.name:
                await asyncio.to_thread(shutil.rmtree, new, ignore_errors=True)
        self._deleted = self._written = 0
        if served is not None:
            with edge_errors():
                served.close()
            if not self._unsynced:
                await asyncio.to_thread(shutil.rmtree, old, ignore_errors=True)

    def _switch_to(self, new: Path) -> Shard:
        """Opens the new shard, names it in the record, then switches to it. Returns the old shard.

        On any failure the shard in use is the one that the record names: writes to another would be lost.
        """
        sync_folder(self._folder)
        shard = Shard.load(str(new))
        try:
            self._update_record(shard=new.name)
        except BaseException:
            shard.close()
            raise
        served, self._shard = self._shard, shard
        return served

    def _update_record(self, **changes: object) -> None:
        """Writes the record with these changes. If it raises, the record on the disk is unchanged."""
        with self._recording:
            record = self.record.model_copy(update=changes)
            text = record.model_dump_json(indent=1)
            try:
                edge_files.replace_file(self._folder / edge_files.RECORD, text)
            except OSError:
                if not edge_files.has_text(self._folder / edge_files.RECORD, text):
                    raise
                self._unsynced = True
            self.record = record
            self.size.forget()

    def _sync_record(self) -> None:
        """Syncs the record's folder before a write, if that failed before: a power cut could restore the old record."""
        if self._unsynced:
            sync_folder(self._folder)
            self._unsynced = False


def _payload_page(
    shard: edge.EdgeShard,
    key: str,
    first: "edge.PointId | None",  # a name of the stubs alone
) -> "tuple[list[tuple[str, str]], edge.PointId | None]":
    """Reads id and content hash (under `key`) of the points of a page, from `first` on, and the next page's first."""
    records, following = shard.scroll(
        edge.ScrollRequest(offset=first, limit=PAGE, with_payload=["id", key], with_vector=False)
    )
    pairs = [(record.payload["id"], record.payload[key]) for record in records if record.payload is not None]
    return pairs, following
