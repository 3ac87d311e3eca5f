"""Qdrant Edge as a lexical engine: in this process, durable in a directory, one process a directory."""

import contextlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from weakref import WeakKeyDictionary

import qdrant_edge as edge

from services.chassis.errors import UnknownCollection
from services.contracts.collections import CollectionDeclaration, CollectionState, Unusable
from services.contracts.documents import DeleteReport, Document, FetchedDocuments, IndexReport
from services.contracts.health import Check
from services.contracts.retrieval import RetrievalRequest, RetrievedHit
from services.lexical.analysis import ANALYSIS, words_of
from services.lexical.document_collector import WHOLE, Collected, Reading
from services.lexical.edge_documents import SHAPE, EdgeDocuments, KnownIds
from services.lexical.edge_query import bm25_request
from services.lexical.presets import chosen_preset
from services.lexical.stamp import stamp_of
from services.storage.builds import refuse_other_build
from services.storage.edge_directory import ENGINE, USUAL, EdgeDirectory, Limits
from services.storage.edge_fields import edge_filter
from services.storage.edge_files import Record
from services.storage.edge_generation import EdgeGeneration
from services.storage.fields import requirements_of
from services.storage.stamps import refuse_other_stamp
from services.storage.ties import settled

# Documents in one turn of the thread: 32 of SciFact take it 15 ms, and a search waits for no more than one turn.
TURN = 32
# Documents read at once: four of 8 MB are 32 MB beside the answer; for 1,000 small ones it costs nothing.
READ = 4


class EdgeEngine:
    """Documents in an EdgeDirectory. Promises what LexicalEngine promises."""

    engine = ENGINE

    def __init__(self, directory: Path, limits: Limits = USUAL) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable when it is in use."""
        # Edge holds the GIL in its calls, so more threads would only wait for each other.
        self._held = EdgeDirectory(directory, SHAPE, limits, threads=1)
        self._known_ids: WeakKeyDictionary[EdgeGeneration, KnownIds] = WeakKeyDictionary()

    async def check(self) -> Check:
        """An open directory stays usable."""
        return self._held.check("engine")

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None
    ) -> CollectionState:
        """A folder, its record written last."""
        stamp = stamp_of(declaration, ANALYSIS)
        wanted = Record(generation=generation, declaration=declaration, stamp=stamp, build=build)
        there = await self._held.begin(wanted)
        refuse_other_stamp(generation, there.stamp, stamp)
        refuse_other_build(generation, there.build, build)
        return await self.state(generation)

    async def states(self) -> tuple[CollectionState, ...]:
        """From the records and the shards."""
        states: list[CollectionState] = []
        for generation in self._held.generations():
            with contextlib.suppress(UnknownCollection):  # removed since it was listed
                states.append(await self.state(generation))
        return tuple(states)

    async def unusable(self) -> tuple[Unusable, ...]:
        """The folders that could not be opened. Has those tried again that may only have lacked room on the disk."""
        return self._held.unusable()

    async def state(self, generation: str) -> CollectionState:
        """From its record and its shard."""
        held = self._held.held(generation)
        count = await held.read(lambda shard: shard.count(edge.CountRequest(exact=True)))
        return CollectionState(
            generation=generation,
            published=self._held.is_published(generation),
            documents=count,
            engine=self.engine,
            stamp=held.record.stamp,
            declaration=held.record.declaration,
            build=held.record.build,
            published_at=held.record.published_at,
        )

    async def drop(self, generation: str) -> None:
        """Moves the folder aside, closes, unpublishes, removes it."""
        await self._held.drop(generation)

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """In turns, so that searches get theirs in between."""
        reports: list[IndexReport] = []
        for start in range(0, len(documents), TURN):
            held, turn = self._usable(generation), documents[start : start + TURN]
            reports.append(await held.write(partial(_index, held.record, turn, version)))
        return IndexReport(
            indexed=sum(report.indexed for report in reports),
            unchanged=sum(report.unchanged for report in reports),
            errors=tuple(error for report in reports for error in report.errors),
            latest_version=max((report.latest_version or 0 for report in reports), default=0) or None,
        )

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """One operation."""
        held = self._usable(generation)
        report = await held.write(lambda shard: EdgeDocuments(held.record, shard).delete(ids, version))
        held.deleted(report.deleted)
        return report

    async def get(self, generation: str, ids: Sequence[str], reading: Reading = WHOLE) -> FetchedDocuments:
        """From the payloads, a few at a time: how long they are is known when they have been read."""
        collected = Collected(tuple(ids), reading.cut_to_bytes)
        for start in range(0, len(collected.ids), TURN):
            held, turn = self._usable(generation), collected.ids[start : start + TURN]
            await held.read(partial(_collect, held.record, turn, reading, collected))
        return collected.answer()

    async def finish(self, generation: str) -> CollectionState:
        """What was indexed is searchable anyway; this flushes, and merges what many deletions left behind."""
        self._usable(generation)
        await self._held.finish(generation)
        return await self.state(generation)

    async def digest(self, generation: str) -> str:
        """From the payloads."""
        return await self._usable(generation).digest("hash")

    async def publish(self, generation: str) -> CollectionState:
        """Records the time, then replaces published.json in one step."""
        self._usable(generation)
        await self._held.publish(generation)
        return await self.state(generation)

    async def search(self, generation: str, asked: RetrievalRequest) -> tuple[RetrievedHit, ...]:
        """BM25 over the query's terms, ties settled."""
        held = self._usable(generation)
        declaration = held.record.declaration
        preset = chosen_preset(declaration, asked.preset)
        where = edge_filter(requirements_of(asked.filter, declaration.metadata), asked.exclude_ids)
        words = words_of(asked.query)
        if not words:
            return ()
        known = self._known_ids.setdefault(held, {})

        async def fetch(limit: int) -> Sequence[RetrievedHit]:
            request = bm25_request(preset, words, where, limit)
            return await held.read(lambda shard: EdgeDocuments(held.record, shard).query(request, known))

        return await settled(fetch, asked.top)

    async def close(self) -> None:
        """Flushes and closes every shard, and gives the directory free."""
        await self._held.close()

    def _usable(self, generation: str) -> EdgeGeneration:
        """One that the present analysis can read: terms of another version would quietly match less."""
        held = self._held.held(generation)
        refuse_other_stamp(generation, held.record.stamp, stamp_of(held.record.declaration, ANALYSIS))
        return held


def _index(record: Record, documents: Sequence[Document], version: int | None, shard: edge.EdgeShard) -> IndexReport:
    return EdgeDocuments(record, shard).index(documents, version)


def _collect(record: Record, ids: Sequence[str], reading: Reading, collected: Collected, shard: edge.EdgeShard) -> None:
    documents = EdgeDocuments(record, shard)
    for start in range(0, len(ids), READ):
        for document in documents.read(ids[start : start + READ], reading.include):
            collected.add(document)
