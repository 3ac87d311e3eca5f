"""One generation of the Edge store: its folder, its open shard, and who may touch it when."""

import asyncio
import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import qdrant_edge as edge

from services.chassis.errors import UnknownCollection, UpstreamFailed
from services.vectorstore import edge_optimize
from services.vectorstore.edge_files import LAYOUT, RECORD, Record, replace, sync
from services.vectorstore.store import Made

T = TypeVar("T")

# Kilobytes of vectors in a segment from which it gets an HNSW graph: 667 vectors of 384 dimensions.
INDEXING_THRESHOLD_KB = 1_000


def config(dimension: int) -> edge.EdgeConfig:
    """How a shard keeps vectors of this dimension."""
    return edge.EdgeConfig(
        # Dot, not Cosine: Cosine would normalise again on the way in, and copies would drift by a bit.
        vectors=edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Dot),
        # With the default full_scan_threshold (10 MB) a graph is built and then not used below 6,800 vectors:
        # `indexed` would promise an approximate search that is none.
        hnsw_config=edge.HnswIndexConfig(m=16, ef_construct=128, full_scan_threshold=INDEXING_THRESHOLD_KB),
        optimizers=edge.EdgeOptimizersConfig(indexing_threshold=INDEXING_THRESHOLD_KB),
    )


@contextmanager
def edge_errors() -> Iterator[None]:
    """Qdrant Edge raises plain Exception for everything; a store on a local disk that fails is an upstream failure."""
    try:
        yield
    except Exception as error:
        raise UpstreamFailed(f"The embedded vector store failed: {' '.join(str(error).split())[:300]}") from error


class EdgeGeneration:
    """Reads run beside each other; writes one at a time; the index is built on a copy, which then takes over."""

    def __init__(self, folder: Path, threads: Executor) -> None:
        """Opens the folder (blocking). Raises UpstreamFailed when it cannot be read."""
        self._folder = folder
        self._threads = threads
        with edge_errors():
            self.record = Record.model_validate_json((folder / RECORD).read_bytes())
            if self.record.layout != LAYOUT:
                raise ValueError(f"{folder} has the layout {self.record.layout}, this program reads {LAYOUT}")
            for left in folder.glob("shard-*"):  # of an indexing that did not come to its end
                if left.name != self.record.shard:
                    shutil.rmtree(left)
            self._shard = edge.EdgeShard.load(str(folder / self.record.shard))
        self._running: set[Future[Any]] = set()
        self._writing = asyncio.Lock()
        self._finishing: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    def create(cls, folder: Path, made: Made, indexes: list[edge.UpdateOperation]) -> None:
        """Lays out an empty generation in a new folder (blocking)."""
        with edge_errors():
            folder.mkdir(parents=True)
            shard = edge.EdgeShard.create(str(folder / "shard-1"), config(made.dimension))
            for index in indexes:
                shard.update(index)
            shard.flush()
            shard.close()
        record = Record(
            generation=made.generation,
            dimension=made.dimension,
            stamp=dict(made.stamp),
            declaration=made.declaration,
            shard="shard-1",
            finished=True,
            build=made.build,
        )
        replace(folder / RECORD, record.model_dump_json(indent=1))

    async def read(self, work: Callable[[edge.EdgeShard], T]) -> T:
        """Runs `work` on the shard, in a thread."""
        return await self._run(lambda: work(self._shard))

    async def write(self, work: Callable[[edge.EdgeShard], T]) -> T:
        """Runs `work` on the shard, in a thread, alone among the writers. Waits while the index is being built."""
        async with self._writing:
            if self.record.finished:
                self._record(finished=False)
            return await self._run(lambda: work(self._shard))

    async def finish(self) -> None:
        """Builds what is missing of the index. When the caller gives up, it goes on, and the next call waits for it."""
        if self._finishing is None or self._finishing.done():
            self._finishing = asyncio.create_task(self._finish())
        await asyncio.shield(self._finishing)

    def publish(self, at: float) -> None:
        """Records that it becomes the published one at this moment (Unix seconds)."""
        self._record(published_at=at)

    async def close(self) -> None:
        """Waits for the threads that are at it, then lets the shard go."""
        self._closed = True
        if self._finishing is not None:
            self._finishing.cancel()
            with contextlib.suppress(asyncio.CancelledError, UpstreamFailed):
                await self._finishing
        await self._idle()
        with edge_errors():
            self._shard.close()

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

    async def _finish(self) -> None:
        async with self._writing:
            if self.record.finished:
                return
            await self._run(self._shard.flush)
            await self._idle()
            points = (await self._run(self._shard.info)).points_count
            if points * self.record.dimension * 4 >= INDEXING_THRESHOLD_KB * 1_000:
                await self._index()
            self._record(finished=True)

    async def _index(self) -> None:
        """Indexes a copy of the shard in another process, then puts it in the place of the one that served."""
        old = self._folder / self.record.shard
        new = self._folder / f"shard-{int(self.record.shard.removeprefix('shard-')) + 1}"
        await self._run(lambda: _copy(old, new))
        process = await asyncio.create_subprocess_exec(
            sys.executable, edge_optimize.__file__, str(new), stderr=asyncio.subprocess.PIPE
        )
        try:
            _, complaint = await process.communicate()
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        if process.returncode:
            last = (complaint.decode(errors="replace").strip() or "no reason given").splitlines()[-1]
            raise UpstreamFailed(f"The index of {self.record.generation} could not be built: {last[:300]}")
        with edge_errors():
            sync(self._folder)
            served, self._shard = self._shard, edge.EdgeShard.load(str(new))
        self._record(shard=new.name)
        await self._idle()
        with edge_errors():
            served.close()
        shutil.rmtree(old)

    def _record(self, **changes: object) -> None:
        record = self.record.model_copy(update=changes)
        replace(self._folder / RECORD, record.model_dump_json(indent=1))
        self.record = record


def _copy(old: Path, new: Path) -> None:
    shutil.rmtree(new, ignore_errors=True)  # of an indexing that failed
    shutil.copytree(old, new)
