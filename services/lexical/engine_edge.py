"""Qdrant Edge as a lexical engine: in this process, durable in a directory, one process a directory."""

import asyncio
import importlib.metadata
import shutil
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

from services.chassis.errors import UnknownCollection
from services.contracts.collections import CollectionDeclaration, CollectionState
from services.contracts.documents import DeleteReport, Document, DocumentsAnswer, IndexReport
from services.contracts.health import Check
from services.contracts.retrieval import RetrievalRequest, RetrievedHit
from services.lexical.analysis import ANALYSIS, words_of
from services.lexical.edge_generation import RECORD, EdgeGeneration, Record, edge_errors
from services.lexical.edge_query import bm25_request
from services.lexical.generations import by_number, name_of
from services.lexical.presets import chosen_preset
from services.lexical.stamp import refuse_other_stamp, stamp_of
from services.vectorstore.content_digest import ContentDigest
from services.vectorstore.edge_fields import edge_filter
from services.vectorstore.edge_files import locked, read_pointers, write_pointers
from services.vectorstore.edge_pages import FIRST_PAGE, Page
from services.vectorstore.fields import requirements_of
from services.vectorstore.stamps import refuse_other_build
from services.vectorstore.ties import settled

T = TypeVar("T")
# Documents in one turn of the thread: 32 of SciFact take it 15 ms, and a search waits for no more than one turn.
TURN = 32


class EdgeEngine:
    """Owns a directory: a folder a generation, and published.json. Promises what LexicalEngine promises.

    Edge holds the GIL in its calls, so more threads would only wait for each other: one does everything in turn,
    and nothing here needs a lock.
    """

    engine = f"qdrant-edge {importlib.metadata.version('qdrant-edge-py')}"

    def __init__(self, directory: Path) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable when it is in use."""
        self._directory = directory
        self._lock = locked(directory)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="edge")
        self._open: dict[str, EdgeGeneration] = {}
        try:
            for folder in sorted(directory.glob("*@*")):
                if (folder / RECORD).exists():
                    self._open[folder.name] = EdgeGeneration.open(folder)
                else:  # of a creation or removal that did not come to its end
                    shutil.rmtree(folder)
            self._published = read_pointers(directory)
        except BaseException:
            self._lock.close()
            raise

    async def check(self) -> Check:
        """An open directory stays usable."""
        return Check(name="engine", ok=True, detail=f"{self.engine} in {self._directory}")

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None
    ) -> CollectionState:
        """A folder, its record written last."""
        stamp = stamp_of(declaration, ANALYSIS)
        wanted = Record(generation=generation, declaration=declaration, stamp=stamp, build=build)

        def work() -> CollectionState:
            if generation in self._open:
                there = self._open[generation].record
                refuse_other_stamp(generation, there.stamp, wanted.stamp)
                refuse_other_build(generation, there.build, build)
            else:
                self._open[generation] = EdgeGeneration.create(self._directory / generation, wanted)
            return self._state(generation)

        return await self._run(work)

    async def states(self) -> tuple[CollectionState, ...]:
        """From the records and the shards."""
        return await self._run(lambda: tuple(self._state(one) for one in by_number(self._open)))

    async def state(self, generation: str) -> CollectionState:
        """From its record and its shard."""
        return await self._run(lambda: self._state(generation))

    async def drop(self, generation: str) -> None:
        """Unpublishes, closes, removes the record first: what is left of an interrupted removal is not opened."""

        def work() -> None:
            self._held(generation).close()
            if self._published.get(name_of(generation)) == generation:
                self._point({name: one for name, one in self._published.items() if one != generation})
            del self._open[generation]
            folder = self._directory / generation
            (folder / RECORD).unlink()
            shutil.rmtree(folder)

        await self._run(work)

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """In turns, so that searches get theirs in between."""
        reports: list[IndexReport] = []
        for start in range(0, len(documents), TURN):
            turn = partial(self._index, generation, documents[start : start + TURN], version)
            reports.append(await self._run(turn))
        return IndexReport(
            indexed=sum(report.indexed for report in reports),
            unchanged=sum(report.unchanged for report in reports),
            errors=tuple(error for report in reports for error in report.errors),
            latest_version=max((report.latest_version or 0 for report in reports), default=0) or None,
        )

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """One operation."""
        return await self._run(lambda: self._usable(generation).delete(ids, version))

    async def get(self, generation: str, ids: Sequence[str]) -> DocumentsAnswer:
        """From the payloads."""
        return await self._run(lambda: self._usable(generation).get(ids))

    async def finish(self, generation: str) -> CollectionState:
        """What was indexed is searchable anyway; this merges and flushes."""

        def work() -> CollectionState:
            self._usable(generation).finish()
            return self._state(generation)

        return await self._run(work)

    async def digest(self, generation: str) -> str:
        """From the payloads, page by page, so that searches get their turns in between."""
        digest = ContentDigest()
        page: Page | None = FIRST_PAGE
        while page is not None:
            pairs, following = await self._run(partial(self._digest_page, generation, page))
            digest.add(pairs)
            page = following
        return digest.hexdigest()

    async def publish(self, generation: str) -> CollectionState:
        """Records the time, then replaces published.json in one step."""

        def work() -> CollectionState:
            held = self._usable(generation)
            if self._published.get(name_of(generation)) != generation:
                held.published(self._directory / generation, time.time())
                self._point({**self._published, name_of(generation): generation})
            return self._state(generation)

        return await self._run(work)

    async def search(self, generation: str, asked: RetrievalRequest) -> tuple[RetrievedHit, ...]:
        """BM25 over the query's terms, ties settled."""
        held = await self._run(lambda: self._usable(generation))
        declaration = held.record.declaration
        preset = chosen_preset(declaration, asked.preset)
        where = edge_filter(requirements_of(asked.filter, declaration.metadata), asked.exclude_ids)
        words = words_of(asked.query)
        if not words:
            return ()

        async def fetch(limit: int) -> Sequence[RetrievedHit]:
            request = bm25_request(preset, words, where, limit)
            return await self._run(lambda: self._usable(generation).query(request))

        return await settled(fetch, asked.top)

    async def close(self) -> None:
        """Flushes and closes every shard, and gives the directory free."""
        if self._lock.closed:
            return

        def work() -> None:
            for held in self._open.values():
                held.close()
            self._open.clear()

        try:
            await self._run(work)
        finally:
            self._thread.shutdown()
            self._lock.close()

    async def _run(self, work: Callable[[], T]) -> T:
        """Runs `work` in the thread. A cancelled caller leaves; what has not begun by then never will."""

        def guarded() -> T:
            with edge_errors():
                return work()

        return await asyncio.wrap_future(self._thread.submit(guarded))

    def _index(self, generation: str, documents: Sequence[Document], version: int | None) -> IndexReport:
        return self._usable(generation).index(documents, version)

    def _digest_page(self, generation: str, page: Page) -> tuple[list[tuple[str, str]], Page | None]:
        return self._usable(generation).digest_page(page)

    def _held(self, generation: str) -> EdgeGeneration:
        try:
            return self._open[generation]
        except KeyError:
            raise UnknownCollection(f"There is no collection {generation} here; begin it first.") from None

    def _usable(self, generation: str) -> EdgeGeneration:
        """One that the present analysis can read: terms of another version would quietly match less."""
        held = self._held(generation)
        refuse_other_stamp(generation, held.record.stamp, stamp_of(held.record.declaration, ANALYSIS))
        return held

    def _state(self, generation: str) -> CollectionState:
        held = self._held(generation)
        return CollectionState(
            generation=generation,
            published=self._published.get(name_of(generation)) == generation,
            documents=held.count(),
            engine=self.engine,
            stamp=held.record.stamp,
            declaration=held.record.declaration,
            build=held.record.build,
            published_at=held.record.published_at,
        )

    def _point(self, published: dict[str, str]) -> None:
        write_pointers(self._directory, published)
        self._published = published
