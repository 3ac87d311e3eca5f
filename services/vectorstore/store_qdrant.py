"""Implements VectorStore on a Qdrant server through its async client: REST over aiohttp."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from qdrant_client import models

from services.chassis.errors import Conflict, StampMismatch, UnknownCollection, UpstreamFailed
from services.contracts.collections import Unusable
from services.contracts.content_digest import ContentDigest
from services.contracts.generations import in_order, is_generation, name_of
from services.contracts.health import Check
from services.contracts.scored import Ranking, Scored, paired
from services.storage.generation_checks import DEFAULT_MOST_GENERATIONS, refuse_one_more
from services.storage.point_ids import point_id
from services.storage.representation import Sparse, Vector, checked_vector, indexed_documents
from services.storage.ties import settle_ties
from services.storage.write_order import newer_versions, next_publication
from services.vectorstore import qdrant_models
from services.vectorstore.qdrant_connection import QdrantClients, QdrantConnection, unknown
from services.vectorstore.qdrant_parameters import DEFAULT_PARAMETERS, QdrantParameters
from services.vectorstore.store import (
    Counts,
    GenerationSpec,
    Point,
    Publication,
    StoredPoint,
    VectorQuery,
    parts_to_send,
    refuse_other_spec,
)

# Seconds for which a generation's spec is cached; another replica may drop the generation and create it anew.
SPEC_SECONDS = 5.0
# Seconds for which an exact count is cached while the server's own, approximate one stays the same: every gateway lists
# all generations each second, and counting exactly reads all points.
COUNT_SECONDS = 30.0
SCROLLED = 1_000  # points per page, of two short strings each


class QdrantStore:
    """Implements VectorStore. Owns the collections `<prefix><generation>` and the aliases `<prefix><name>`."""

    def __init__(
        self,
        clients: QdrantClients,
        prefix: str = "",
        most_generations: int = DEFAULT_MOST_GENERATIONS,
        clock: Callable[[], float] = time.time,
        parameters: QdrantParameters = DEFAULT_PARAMETERS,
    ) -> None:
        """`clock` returns Unix seconds."""
        self._clock = clock
        self._connection = QdrantConnection(clients)
        self._reading, self._writing = clients.reading, clients.writing
        self._prefix = prefix
        self._most_generations = most_generations
        self._parameters = parameters
        self.stamp = parameters.stamp
        # With the time of reading, and the number of shards.
        self._specs: dict[str, tuple[float, GenerationSpec, int]] = {}
        # When each generation was counted, the approximate number of its points then, and the exact one.
        self._counted: dict[str, tuple[float, int | None, int]] = {}

    @property
    def engine(self) -> str:
        """The versions of the server that answered last, and of the client."""
        return self._connection.engine

    async def ready(self) -> Check:
        """Returns whether the server answers with a supported version; never raises."""
        return await self._connection.ready()

    async def generations(self) -> tuple[str, ...]:
        """Returns the generations whose collections have our prefix and were made by a service of this prefix."""
        async with self._within("any"):
            answer = await self._reading.get_collections()
        ours: list[str] = []
        for collection in answer.collections:
            name = collection.name.removeprefix(self._prefix)
            if collection.name.startswith(self._prefix) and is_generation(name):
                with contextlib.suppress(UnknownCollection):  # not ours, or removed since it was listed
                    await self.spec(name)
                    ours.append(name)
        return in_order(tuple(ours))

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns nothing: the server opens its collections itself, and reports failures in its health."""
        return ()

    async def create(self, spec: GenerationSpec) -> None:
        """Creates the collection with the spec as its metadata, then an index for each declared field."""
        self._specs.pop(spec.generation, None)
        collection = self._collection(spec.generation)
        async with self._within(spec.generation):
            await self._connection.expect_supported()
        refuse_one_more(spec.generation, await self.generations(), self._most_generations)
        # Another replica may create the same collection at this moment; the specs are compared below in any case.
        with contextlib.suppress(Conflict):
            async with self._within(spec.generation, writes=True) as seconds:
                if not await self._writing.collection_exists(collection):
                    await self._writing.create_collection(
                        collection,
                        **qdrant_models.collection_config(spec.representation, self._parameters),
                        metadata=qdrant_models.metadata_of(spec, self._prefix),
                        timeout=seconds,
                    )
        try:
            existing = await self.spec(spec.generation)
        except UnknownCollection as error:
            raise StampMismatch(
                f"The collection {collection} on the Qdrant server is not ours (or another release made it): remove "
                "it, or set another prefix (a setting such as DENSE_PREFIX)."
            ) from error
        refuse_other_spec(existing, spec)
        # Also for a collection that exists: an earlier creation may have stopped before its indexes were made.
        for field, kind in spec.declaration.metadata.items():
            async with self._within(spec.generation, writes=True):
                await self._writing.create_payload_index(
                    collection, f"fields.{field}", field_schema=qdrant_models.KINDS[kind], wait=True
                )

    async def spec(self, generation: str) -> GenerationSpec:
        """Returns the spec from the metadata, cached for SPEC_SECONDS. Raises UnknownCollection unless it is ours."""
        known = self._specs.get(generation)
        if known is not None and time.monotonic() - known[0] < SPEC_SECONDS:
            return known[1]
        info = await self._info(generation)
        spec = qdrant_models.spec_of(generation, info, self._prefix)
        if spec is None:
            raise unknown(generation)
        self._specs[generation] = (time.monotonic(), spec, info.config.params.shard_number or 1)
        return spec

    async def counts(self, generation: str) -> Counts:
        """Returns the exact number of documents, and the number of vectors that the server reports as indexed.

        What others write between `finish` and COUNT_SECONDS later is missed if the approximate number stays the same.
        """
        representation = (await self.spec(generation)).representation
        info = await self._info(generation)
        counted_at, approximate, documents = self._counted.get(generation, (float("-inf"), None, 0))
        if approximate != info.points_count or time.monotonic() - counted_at >= COUNT_SECONDS:
            async with self._within(generation) as seconds:
                documents = (await self._reading.count(self._collection(generation), exact=True, timeout=seconds)).count
            self._counted[generation] = time.monotonic(), info.points_count, documents
        indexed = indexed_documents(info.indexed_vectors_count or 0, documents, representation)
        return Counts(documents=documents, indexed=indexed, bytes=None)

    async def stored(self, generation: str, ids: Sequence[str], *, vectors: bool) -> Mapping[str, StoredPoint]:
        """Reads the points by UUIDv5 of the ids."""
        representation = (await self.spec(generation)).representation
        async with self._within(generation) as seconds:
            records = await self._reading.retrieve(
                self._collection(generation),
                [str(point_id(identity)) for identity in ids],
                with_payload=["id", "content", "passage"],
                with_vectors=vectors,
                timeout=seconds,
            )
        return dict(qdrant_models.stored_point(record, representation, vectors=vectors) for record in records)

    async def upsert(self, generation: str, points: Sequence[Point], version: int | None = None) -> Mapping[str, int]:
        """Writes the points and waits until the server has applied them, so that the next search sees them.

        The server checks the condition: a newer write that comes after our look at the versions stays.
        """
        representation = (await self.spec(generation)).representation
        structs = {point.id: qdrant_models.point_struct(point, representation, version) for point in points}
        newer = newer_versions(await self._versions(generation, list(structs)), version)
        timely = [point for point in points if point.id not in newer]
        for part in parts_to_send(timely):
            async with self._within(generation, writes=True) as seconds:
                await self._writing.upsert(
                    self._collection(generation),
                    [structs[point.id] for point in timely[part]],
                    wait=True,
                    update_filter=qdrant_models.older_filter(version),
                    timeout=seconds,
                )
        return newer

    async def raise_versions(self, generation: str, contents: Mapping[str, str], version: int) -> None:
        """Changes payloads alone, on the condition that the server checks for each."""
        async with self._within(generation, writes=True) as seconds:
            older = qdrant_models.contents_filter(contents, before=version)
            await self._writing.set_payload(
                self._collection(generation), {"version": version}, older, wait=True, timeout=seconds
            )

    async def delete(
        self, generation: str, ids: Sequence[str], version: int | None = None
    ) -> tuple[int, Mapping[str, int]]:
        """Counts the points that exist, then removes them, on the condition of `upsert`."""
        held = await self._versions(generation, ids)
        newer = newer_versions(held, version)
        if present := held.keys() - newer.keys():
            async with self._within(generation, writes=True) as seconds:
                older = models.FilterSelector(filter=qdrant_models.ids_filter(present, before=version))
                await self._writing.delete(self._collection(generation), older, wait=True, timeout=seconds)
        return len(present), newer

    async def search(self, generation: str, query: VectorQuery) -> Ranking:
        """Returns the best by the representation's score, ties by ascending id. Reads only the id of the payload."""
        representation = (await self.spec(generation)).representation
        vector = checked_vector(query.vector, representation)
        where = qdrant_models.filter_of(query.where, query.exclude_ids)
        shards, quantised = self._specs[generation][2], self._parameters.quantisation is not None

        async def fetch(limit: int) -> Sequence[Scored]:
            beam = None if query.exact else query.beam
            search = qdrant_models.search_arguments(
                vector, representation, limit, where, beam, shards=shards, quantised=quantised
            )
            return await self._query(generation, search)

        return await settle_ties(fetch, query.top)

    async def scores(self, generation: str, ids: Sequence[str], vector: Vector) -> Mapping[str, float]:
        """Searches exactly among the points of these ids."""
        representation = (await self.spec(generation)).representation
        checked = checked_vector(vector, representation)
        scored: dict[str, float] = {}
        if isinstance(representation, Sparse):  # a document that shares no term with the query is no hit of it
            scored = dict.fromkeys(await self.stored(generation, ids, vectors=False), 0.0)
        search = qdrant_models.search_arguments(
            checked, representation, len(ids), qdrant_models.ids_filter(ids), beam=None
        )
        return scored | {hit.id: hit.score for hit in await self._query(generation, search)}

    async def finish(self, generation: str) -> None:
        """Waits until the server reports green twice in a row with the same number of indexed vectors."""
        await self.spec(generation)
        self._counted.pop(generation, None)
        before = -1
        pause = 0.05
        while True:
            info = await self._info(generation)
            match info.status:
                case models.CollectionStatus.RED:
                    raise UpstreamFailed(f"Qdrant could not index {generation}: {info.optimizer_status}")
                case models.CollectionStatus.GREY:  # not optimised since the server's start: any update starts it
                    async with self._within(generation, writes=True):
                        await self._writing.update_collection(
                            self._collection(generation), optimizers_config=qdrant_models.OPTIMIZERS
                        )
                case models.CollectionStatus.GREEN if info.indexed_vectors_count == before:
                    return
            before = (info.indexed_vectors_count or 0) if info.status == models.CollectionStatus.GREEN else -1
            await asyncio.sleep(pause)
            pause = min(1.0, pause * 2)

    async def publish(self, generation: str, publication: int | None = None) -> None:
        """Records the publication, then moves the alias of the name in one request.

        Raises Conflict if a collection that is not ours has the alias.
        """
        await self.spec(generation)
        alias = self._collection(name_of(generation))
        holder = (await self._alias_holders()).get(alias)
        if holder == self._collection(generation) and await self.publication(generation) is not None:
            return
        ours = await self.generations()
        if holder is not None and holder not in map(self._collection, ours):
            raise Conflict(
                f"The alias {alias} is on the collection {holder}, which is not ours; remove "
                "it there, or set another prefix (a setting such as DENSE_PREFIX)."
            )
        others: list[int | None] = []
        for other in ours:
            if other != generation and name_of(other) == name_of(generation):
                with contextlib.suppress(UnknownCollection):  # removed since it was listed
                    held = await self.publication(other)
                    others.append(None if held is None else held.number)
        kept = {
            qdrant_models.PUBLISHED_AT: self._clock(),
            qdrant_models.PUBLICATION: next_publication(publication, others),
        }
        async with self._within(generation, writes=True) as seconds:
            await self._writing.update_collection(self._collection(generation), metadata=kept, timeout=seconds)
        moves: list[models.AliasOperations] = []
        if holder is not None:
            moves.append(models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        onto = models.CreateAlias(collection_name=self._collection(generation), alias_name=alias)
        moves.append(models.CreateAliasOperation(create_alias=onto))
        async with self._within(generation, writes=True) as seconds:
            await self._writing.update_collection_aliases(moves, timeout=seconds)

    async def published(self) -> Mapping[str, str]:
        """Returns the published generations, from the aliases."""
        generations = {
            alias.removeprefix(self._prefix): collection.removeprefix(self._prefix)
            for alias, collection in (await self._alias_holders()).items()
            if alias.startswith(self._prefix) and collection.startswith(self._prefix)
        }
        return {name: generation for name, generation in generations.items() if name_of(generation) == name}

    async def publication(self, generation: str) -> Publication | None:
        """Returns the publication, from the collection's metadata."""
        await self.spec(generation)
        return qdrant_models.publication_of(await self._info(generation))

    async def digest(self, generation: str) -> str:
        """Computes the digest from all payloads, page by page."""
        await self.spec(generation)
        digest, page = ContentDigest(), None
        while True:
            async with self._within(generation) as seconds:
                records, page = await self._reading.scroll(
                    self._collection(generation),
                    limit=SCROLLED,
                    offset=page,
                    with_payload=["id", "content"],
                    with_vectors=False,
                    timeout=seconds,
                )
            digest.add((record.payload["id"], record.payload["content"]) for record in records if record.payload)
            if page is None:
                return digest.hexdigest()

    async def drop(self, generation: str) -> None:
        """Removes the collection; the server removes its alias with it."""
        self._counted.pop(generation, None)
        self._specs.pop(generation, None)
        await self.spec(generation)
        self._specs.pop(generation, None)
        async with self._within(generation, writes=True) as seconds:
            await self._writing.delete_collection(self._collection(generation), timeout=seconds)

    async def close(self) -> None:
        """Closes the connections."""
        await self._connection.close()

    async def _versions(self, generation: str, ids: Sequence[str]) -> dict[str, int]:
        """Returns the stored versions by id."""
        await self.spec(generation)
        async with self._within(generation) as seconds:
            records = await self._reading.retrieve(
                self._collection(generation),
                [str(point_id(identity)) for identity in ids],
                with_payload=["id", "version"],
                timeout=seconds,
            )
        return {record.payload["id"]: record.payload["version"] for record in records if record.payload}

    async def _alias_holders(self) -> dict[str, str]:
        """Returns the collection of every alias on the server, ours or not."""
        async with self._within("any"):
            answer = await self._reading.get_aliases()
        return {alias.alias_name: alias.collection_name for alias in answer.aliases}

    async def _query(self, generation: str, search: qdrant_models.SearchArguments) -> Ranking:
        async with self._within(generation) as seconds:
            answer = await self._reading.query_points(
                self._collection(generation), **search, with_payload=["id"], timeout=seconds
            )
        return paired(((point.payload or {})["id"], point.score) for point in answer.points)

    async def _info(self, generation: str) -> models.CollectionInfo:
        async with self._within(generation):
            return await self._reading.get_collection(self._collection(generation))

    def _collection(self, generation: str) -> str:
        return f"{self._prefix}{generation}"

    @asynccontextmanager
    async def _within(self, generation: str, *, writes: bool = False) -> AsyncIterator[int]:
        """Does what QdrantConnection.within does, and drops the cached spec of a generation that no longer exists."""
        try:
            async with self._connection.within(generation, writes=writes) as seconds:
                yield seconds
        except UnknownCollection:
            self._specs.pop(generation, None)
            raise
