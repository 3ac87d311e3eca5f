"""Qdrant Edge as a vector store: in this process, durable in a directory, one process a directory."""

import asyncio
import importlib.metadata
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import qdrant_edge as edge

from services.chassis.errors import UnknownCollection
from services.contracts.health import Check
from services.contracts.retrieval import RetrievedHit
from services.vectorstore.content_digest import ContentDigest
from services.vectorstore.edge_fields import INDEX_KINDS, edge_filter
from services.vectorstore.edge_files import locked, read_pointers, write_pointers
from services.vectorstore.edge_generation import EdgeGeneration
from services.vectorstore.edge_pages import FIRST_PAGE, Page, payload_page
from services.vectorstore.identity import point_id
from services.vectorstore.stamps import refuse_another
from services.vectorstore.store import Counts, Made, Point, StoredPoint, VectorQuery, beam, checked, in_order, name_of
from services.vectorstore.ties import settled


class EdgeStore:
    """Owns a directory: a folder a generation, and published.json. Promises what VectorStore promises."""

    engine = f"qdrant-edge {importlib.metadata.version('qdrant-edge-py')}"

    def __init__(self, directory: Path) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable when it is in use."""
        self._directory = directory
        self._lock = locked(directory)
        try:
            # Edge holds the GIL in its calls, so more threads would only wait for each other.
            self._threads = ThreadPoolExecutor(2, thread_name_prefix="edge")
            for left in directory.glob(".gone-*"):  # of a creation or removal that did not come to its end
                shutil.rmtree(left)
            self._open = {
                folder.name: EdgeGeneration(folder, self._threads) for folder in sorted(directory.glob("[!.]*@*"))
            }
            self._pointers = read_pointers(directory)
        except BaseException:
            self._lock.close()
            raise
        self._changing = asyncio.Lock()

    async def ready(self) -> Check:
        """An open directory stays usable."""
        return Check(name="store", ok=True, detail=f"{self.engine} in {self._directory}")

    async def generations(self) -> tuple[str, ...]:
        """The folders."""
        return in_order(tuple(self._open))

    async def create(self, made: Made) -> None:
        """Lays the folder out under another name first: a half-made one is never opened."""
        async with self._changing:
            if made.generation in self._open:
                refuse_another(await self.made(made.generation), made)
                return
            folder, beside = self._directory / made.generation, self._aside()
            indexes = [
                edge.UpdateOperation.create_field_index(f"fields.{field}", INDEX_KINDS[kind])
                for field, kind in made.declaration.metadata.items()
            ]
            await asyncio.to_thread(EdgeGeneration.create, beside, made, indexes)
            beside.rename(folder)
            self._open[made.generation] = EdgeGeneration(folder, self._threads)

    async def made(self, generation: str) -> Made:
        """From its collection.json."""
        record = self._generation(generation).record
        return Made(generation, record.dimension, record.stamp, record.declaration, record.build)

    async def counts(self, generation: str) -> Counts:
        """What the shard says."""
        info = await self._generation(generation).read(lambda shard: shard.info())
        return Counts(documents=info.points_count, indexed=min(info.indexed_vectors_count, info.points_count))

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """By UUIDv5 of the ids."""
        points: list[edge.PointId] = [point_id(one) for one in ids]
        found = await self._generation(generation).read(
            lambda shard: shard.retrieve(points, with_payload=["id", "content", "passage"], with_vector=vectors)
        )
        return {
            record.payload["id"]: StoredPoint(
                content_hash=record.payload["content"],
                passage_hash=record.payload["passage"],
                vector=np.asarray(record.vector, dtype=np.float32) if vectors else None,
            )
            for record in found
            if record.payload is not None
        }

    async def upsert(self, generation: str, points: Sequence[Point]) -> None:
        """One batch into the write-ahead log."""
        opened = self._generation(generation)
        batch = [_point(point, opened.record.dimension) for point in points]
        await opened.write(lambda shard: shard.update(edge.UpdateOperation.upsert_points(batch)))

    async def delete(self, generation: str, ids: Sequence[str]) -> int:
        """Counts what is there, then removes it, as one write."""
        points: list[edge.PointId] = [point_id(one) for one in ids]

        def remove(shard: edge.EdgeShard) -> int:
            present = len(shard.retrieve(points, with_payload=False, with_vector=False))
            if present:
                shard.update(edge.UpdateOperation.delete_points(points))
            return present

        return await self._generation(generation).write(remove)

    async def search(self, generation: str, query: VectorQuery) -> tuple[RetrievedHit, ...]:
        """Nearest by dot product, ties settled."""
        opened = self._generation(generation)
        vector = edge.Query.Nearest(checked(query.vector, opened.record.dimension).tolist())
        where = edge_filter(query.where, query.exclude_ids)

        async def fetch(limit: int) -> Sequence[RetrievedHit]:
            params = edge.SearchParams(exact=query.exact, hnsw_ef=None if query.exact else beam(limit))
            request = edge.QueryRequest(limit=limit, query=vector, filter=where, with_payload=["id"], params=params)
            return await opened.read(lambda shard: _hits(shard.query(request)))

        return await settled(fetch, query.top)

    async def finish(self, generation: str) -> None:
        """Indexes a copy in another process; searches go on meanwhile, writes wait."""
        await self._generation(generation).finish()

    async def publish(self, generation: str) -> None:
        """Records the time, then replaces published.json."""
        async with self._changing:
            opened = self._generation(generation)
            if self._pointers.get(name_of(generation)) == generation:
                return
            opened.publish(time.time())
            self._point({**self._pointers, name_of(generation): generation})

    async def published(self) -> Mapping[str, str]:
        """From published.json."""
        return dict(self._pointers)

    async def published_at(self, generation: str) -> float | None:
        """From its collection.json."""
        return self._generation(generation).record.published_at

    async def digest(self, generation: str) -> str:
        """Reads the payloads page by page, so that searches get their turns in between."""
        opened, digest = self._generation(generation), ContentDigest()
        page: Page | None = FIRST_PAGE
        while page is not None:
            pairs, following = await opened.read(partial(payload_page, key="content", page=page))
            digest.add(pairs)
            page = following
        return digest.hexdigest()

    async def drop(self, generation: str) -> None:
        """Unpublishes, closes, moves the folder aside, removes it."""
        async with self._changing:
            opened = self._generation(generation)
            if self._pointers.get(name_of(generation)) == generation:
                self._point({name: one for name, one in self._pointers.items() if one != generation})
            del self._open[generation]
            await opened.close()
            gone = (self._directory / generation).rename(self._aside())
        await asyncio.to_thread(shutil.rmtree, gone)

    async def close(self) -> None:
        """Closes every shard and gives the directory free."""
        for opened in self._open.values():
            await opened.close()
        self._open.clear()
        self._threads.shutdown()
        self._lock.close()

    def _generation(self, generation: str) -> EdgeGeneration:
        try:
            return self._open[generation]
        except KeyError:
            raise UnknownCollection(f"There is no collection {generation} here; begin it first.") from None

    def _point(self, pointers: Mapping[str, str]) -> None:
        write_pointers(self._directory, pointers)
        self._pointers = dict(pointers)

    def _aside(self) -> Path:
        return self._directory / f".gone-{uuid.uuid4().hex}"


def _point(point: Point, dimension: int) -> edge.Point:
    payload = {
        "id": point.id,
        "content": point.content_hash,
        "passage": point.passage_hash,
        "fields": {field: list(values) for field, values in point.fields.items()},
    }
    return edge.Point(point_id(point.id), checked(point.vector, dimension).tolist(), payload)


def _hits(points: Sequence[edge.ScoredPoint]) -> list[RetrievedHit]:
    return [RetrievedHit(id=point.payload["id"], score=point.score) for point in points if point.payload is not None]
