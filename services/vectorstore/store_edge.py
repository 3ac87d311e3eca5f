"""Implements VectorStore with Qdrant Edge, inside this process. The files are those of services/storage."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import qdrant_edge as edge

from services.contracts.collections import Unusable
from services.contracts.content_digest import ContentDigest
from services.contracts.health import Check
from services.contracts.scored import Ranking, Scored
from services.storage.edge_directory import DEFAULT_LIMITS, ENGINE, EdgeDirectory, EdgeLimits
from services.storage.edge_fields import edge_filter, field_indexes, ids_filter
from services.storage.edge_files import GenerationRecord
from services.storage.edge_generation import ShardSchema
from services.storage.point_ids import point_id
from services.storage.representation import (
    Representation,
    Sparse,
    Vector,
    checked_vector,
    dump_representation,
    indexed_documents,
    kept_vector,
    vector_of,
)
from services.storage.ties import settle_ties
from services.storage.write_order import newer_versions
from services.vectorstore.edge_vectors import (
    edge_vector,
    points_to_index,
    representation_of,
    search_request,
    shard_config,
)
from services.vectorstore.store import (
    NO_STAMP,
    Counts,
    GenerationSpec,
    Point,
    Publication,
    StoredPoint,
    VectorQuery,
    refuse_other_spec,
)

SCHEMA = ShardSchema(
    config=shard_config,
    indexes=lambda record: field_indexes(record.declaration.metadata),
    stamp_key="model",
    points_to_index=points_to_index,
    check=representation_of,
)


class EdgeStore:
    """Implements VectorStore over an EdgeDirectory; only one process may use a directory."""

    engine = ENGINE
    stamp = NO_STAMP

    def __init__(
        self, directory: Path, limits: EdgeLimits = DEFAULT_LIMITS, clock: Callable[[], float] = time.time
    ) -> None:
        """Opens the directory and every generation in it (blocking). Raises Unavailable if it is in use."""
        # Edge holds the GIL in its calls, so more threads would only wait for each other.
        self._held = EdgeDirectory(directory, SCHEMA, limits, threads=2, clock=clock)

    async def ready(self) -> Check:
        """Returns the state of the directory, which stays usable once opened."""
        return self._held.check("store")

    async def generations(self) -> tuple[str, ...]:
        """Returns every open generation."""
        return self._held.generations()

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns the generations that could not be opened. Starts reopening those that lacked disk space."""
        return self._held.unusable()

    async def create(self, spec: GenerationSpec) -> None:
        """Creates the generation's folder; its record is written last."""
        wanted = GenerationRecord(
            generation=spec.generation,
            representation=dump_representation(spec.representation),
            stamp=dict(spec.stamp),
            declaration=spec.declaration,
            shard="shard-1",
            finished=True,
            build=spec.build,
            owner=spec.owner,
        )
        refuse_other_spec(_spec(await self._held.begin(wanted)), spec)

    async def spec(self, generation: str) -> GenerationSpec:
        """Returns the spec, from the generation's collection.json."""
        return _spec(self._held.held(generation).record)

    async def counts(self, generation: str) -> Counts:
        """Returns the counts that the shard reports, and the bytes of the generation's folder."""
        held = self._held.held(generation)
        info = await held.read(lambda shard: shard.info())
        indexed = indexed_documents(info.indexed_vectors_count, info.points_count, representation_of(held.record))
        return Counts(documents=info.points_count, indexed=indexed, bytes=await held.size.bytes())

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """Reads the points by UUIDv5 of the ids."""
        opened = self._held.held(generation)
        representation = representation_of(opened.record)
        points: list[edge.PointId] = [point_id(identity) for identity in ids]
        records = await opened.read(
            lambda shard: shard.retrieve(points, with_payload=["id", "content", "passage"], with_vector=vectors)
        )
        return {
            record.payload["id"]: StoredPoint(
                content_hash=record.payload["content"],
                passage_hash=record.payload["passage"],
                vector=vector_of(record.vector, representation) if vectors else None,
            )
            for record in records
            if record.payload is not None
        }

    async def upsert(self, generation: str, points: Sequence[Point], version: int | None = None) -> Mapping[str, int]:
        """Writes one batch to the write-ahead log."""
        opened = self._held.held(generation)
        representation = representation_of(opened.record)
        batch = {point.id: _point(point, representation, version or 0) for point in points}
        contents = {point.id: point.content_hash for point in points}

        def write(shard: edge.EdgeShard, change: ContentDigest) -> dict[str, int]:
            replaced, newer = _older_contents(shard, list(batch), version)
            if written := [identity for identity in batch if identity not in newer]:
                shard.update(edge.UpdateOperation.upsert_points([batch[identity] for identity in written]))
                change.remove(replaced)
                change.add((identity, contents[identity]) for identity in written)
            return newer

        newer = await opened.write(write)
        opened.written(len(batch) - len(newer))
        return newer

    async def raise_versions(self, generation: str, contents: Mapping[str, str], version: int) -> None:
        """Changes payloads alone."""
        opened = self._held.held(generation)

        def write(shard: edge.EdgeShard, _: ContentDigest) -> None:
            older, _newer = _older_contents(shard, list(contents), version)
            same = [identity for identity, content in older if content == contents[identity]]
            shard.update(edge.UpdateOperation.set_payload([*map(point_id, same)], {"version": version}))

        await opened.write(write)
        opened.deleted(len(contents))  # Edge changes nothing in a merged segment: it copies points, with their vectors

    async def delete(
        self, generation: str, ids: Sequence[str], version: int | None = None
    ) -> tuple[int, Mapping[str, int]]:
        """Counts the points that exist and removes them, in one write."""
        opened = self._held.held(generation)

        def remove(shard: edge.EdgeShard, change: ContentDigest) -> tuple[int, dict[str, int]]:
            present, newer = _older_contents(shard, ids, version)
            if present:
                shard.update(edge.UpdateOperation.delete_points([point_id(identity) for identity, _ in present]))
                change.remove(present)
            return len(present), newer

        removed, newer = await opened.write(remove)
        opened.deleted(removed)
        return removed, newer

    async def search(self, generation: str, query: VectorQuery) -> Ranking:
        """Returns the best by the representation's score, ties by ascending id."""
        opened = self._held.held(generation)
        representation = representation_of(opened.record)
        vector = checked_vector(query.vector, representation)
        where = edge_filter(query.where, query.exclude_ids)

        async def fetch(limit: int) -> Sequence[Scored]:
            request = search_request(vector, representation, limit, where, None if query.exact else query.beam)
            return await opened.ranking(request)

        return await settle_ties(fetch, query.top)

    async def scores(self, generation: str, ids: Sequence[str], vector: Vector) -> Mapping[str, float]:
        """Searches exactly among the points of these ids."""
        opened = self._held.held(generation)
        representation = representation_of(opened.record)
        checked = checked_vector(vector, representation)
        scored: dict[str, float] = {}
        if isinstance(representation, Sparse):  # a document that shares no term with the query is no hit of it
            scored = dict.fromkeys(await self.stored(generation, ids, vectors=False), 0.0)
        request = search_request(checked, representation, len(ids), ids_filter(ids), beam=None)
        return scored | {hit.id: hit.score for hit in await opened.ranking(request)}

    async def finish(self, generation: str) -> None:
        """Indexes a copy in another process. Searches continue meanwhile, writes wait."""
        await self._held.finish(generation)

    async def publish(self, generation: str, publication: int | None = None) -> None:
        """Records the publication, then replaces published.json."""
        await self._held.publish(generation, publication)

    async def published(self) -> Mapping[str, str]:
        """Returns the published generations, from published.json."""
        return self._held.published()

    async def publication(self, generation: str) -> Publication | None:
        """Returns the publication, from the generation's collection.json."""
        record = self._held.held(generation).record
        return None if record.published_at is None else Publication(record.published_at, record.publication)

    async def digest(self, generation: str) -> str:
        """Returns the digest that the generation keeps."""
        return await self._held.held(generation).digest("content")

    async def drop(self, generation: str) -> None:
        """Moves the folder aside, closes the shard, unpublishes it, and removes the folder."""
        await self._held.drop(generation)

    async def close(self) -> None:
        """Closes every shard and releases the directory."""
        await self._held.close()


def _spec(record: GenerationRecord) -> GenerationSpec:
    return GenerationSpec(
        record.generation, representation_of(record), record.stamp, record.declaration, record.build, record.owner
    )


def _point(point: Point, representation: Representation, version: int) -> edge.Point:
    payload = {
        "id": point.id,
        "version": version,
        "content": point.content_hash,
        "passage": point.passage_hash,
        "fields": {field: list(values) for field, values in point.fields.items()},
    }
    return edge.Point(
        point_id(point.id), edge_vector(kept_vector(point.vector, representation), representation), payload
    )


def _older_contents(
    shard: edge.EdgeShard, ids: Sequence[str], version: int | None
) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Returns id and content hash of the documents that this version replaces, and by id the versions that stay."""
    points: list[edge.PointId] = [point_id(identity) for identity in ids]
    records = shard.retrieve(points, with_payload=["id", "content", "version"], with_vector=False)
    held = [record.payload for record in records if record.payload is not None]
    newer = newer_versions({payload["id"]: payload.get("version", 0) for payload in held}, version)
    return [(payload["id"], payload["content"]) for payload in held if payload["id"] not in newer], newer
