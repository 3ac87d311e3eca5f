"""Owns the indices and aliases by which an Elasticsearch holds generations, and what is remembered of them.

An index is ours if it is named prefix + generation and its `_meta` names this prefix as that of its maker. All others
are ignored. Every index has the keyword field `doc_id`, and the content hash as `hash` in its source. Each document
holds its addend of the ContentDigest as parts of 24 bits, which Elasticsearch sums without reading documents: in
float64, which is exact below 2^53 and so for 2^29 documents.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.chassis.errors import Conflict, ProblemError, UnknownCollection, UpstreamFailed
from services.contracts.collections import CollectionDeclaration
from services.contracts.content_digest import ContentDigest, addend
from services.contracts.generations import is_generation, name_of
from services.contracts.health import Check
from services.storage.elasticsearch.answers import (
    INDEX_DESCRIPTIONS,
    BroadcastAnswer,
    ClusterHealth,
    IndexDescription,
    IndexSize,
    Nodes,
    Statistics,
    SumsAnswer,
)
from services.storage.elasticsearch.client import ElasticsearchClients
from services.storage.elasticsearch.errors import (
    PREFIXES,
    RefusedByElasticsearch,
    elasticsearch_errors,
    unknown_collection,
)
from services.storage.generation_checks import DEFAULT_MOST_GENERATIONS, refuse_one_more
from services.storage.write_order import next_publication

# The source goes without it, where it would take four times the space.
DIGEST = "digest"
_BITS = 24
_PARTS = tuple(f"part{place}" for place in range(11))


def digest_types() -> dict[str, object]:
    """Returns the mapping of the parts."""
    return {DIGEST: {"type": "object", "properties": {part: {"type": "integer", "index": False} for part in _PARTS}}}


def digest_parts(document_id: str, content_hash: str) -> dict[str, object]:
    """Returns the parts of a document's addend, the lowest bits first, as a field of what is indexed."""
    whole = addend(document_id, content_hash)
    return {DIGEST: {part: whole >> place * _BITS & (1 << _BITS) - 1 for place, part in enumerate(_PARTS)}}


def digest_of(sums: Mapping[str, float]) -> str:
    """Returns the digest of all documents, from the sum of each part."""
    return ContentDigest(sum(int(sums[part]) << place * _BITS for place, part in enumerate(_PARTS))).hexdigest()


# Seconds for which a generation is cached: another replica may delete it and begin it again, or publish it.
REMEMBERED_S = 1.0
CHECK_S = 2.0
MOVES = 3
_STATUS = {"filter_path": "status"}
_SUMS = {"allow_partial_search_results": "false", "filter_path": "_shards.failed,aggregations.*.value"}
_VERSIONS = {"filter_path": "nodes.*.version"}
_SIZES = {"filter_path": "indices.*.primaries.docs.count,indices.*.primaries.store.size_in_bytes"}
_DESCRIPTIONS = {"ignore_unavailable": "true", "filter_path": "*.mappings._meta,*.aliases"}

Json = Mapping[str, object]


class GenerationMeta(BaseModel):
    """The `_meta` in the mapping of our indices. Each service adds its layout."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    # Of the service that made it: `demo-c@1` with the prefix `demo-` is not the collection `demo-c` without a prefix.
    prefix: str
    declaration: CollectionDeclaration
    stamp: dict[str, str]
    build: str | None = None
    owner: str | None = None
    published_at: float | None = None  # Unix seconds
    publication: Annotated[int | None, Field(exclude_if=lambda number: number is None)] = None


Meta = TypeVar("Meta", bound=GenerationMeta)

NO_SIZE = IndexSize()


@dataclass(frozen=True, slots=True)
class HeldGeneration(Generic[Meta]):
    """A generation that Elasticsearch holds."""

    generation: str
    meta: Meta
    kept: Json  # the whole `_meta`, including keys that only a newer release knows
    published: bool

    @property
    def declaration(self) -> CollectionDeclaration:
        """The declaration that it was begun with."""
        return self.meta.declaration


class GenerationIndices(Generic[Meta]):
    """Creates, publishes and removes the indices of one prefix, whose `_meta` is of one class."""

    def __init__(
        self,
        clients: ElasticsearchClients,
        prefix: str,
        meta: type[Meta],
        most_generations: int = DEFAULT_MOST_GENERATIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Does not connect yet: a service may start before its Elasticsearch. `clock` returns Unix seconds."""
        self._reading, self._writing = clients.reading, clients.writing
        self._refresh_live = clients.refresh_live
        self.prefix = prefix
        self._meta = meta
        self._most_generations = most_generations
        self._clock = clock
        self._remembered: dict[str, tuple[float, HeldGeneration[Meta]]] = {}
        self._version: str | None = None

    @property
    def last_version(self) -> str | None:
        """The version that was read last; None before the first answer."""
        return self._version

    def index(self, generation: str) -> str:
        return f"{self.prefix}{generation}"

    def writing(self, generation: str) -> str:
        """Returns the alias of an index that documents are written to. No index can have its name, by its capitals:
        a write to the name of an index that was just deleted would create it, a versioned delete too."""
        return f"{self.prefix}{generation}-WRITING"

    def alias(self, generation: str) -> str:
        """Returns the alias of the published generation: the collection's name."""
        return f"{self.prefix}{name_of(generation)}"

    async def check(self, name: str) -> Check:
        """Returns whether the cluster serves requests; never raises."""
        try:
            with elasticsearch_errors():
                health = await self._reading.request("GET", "/_cluster/health", None, _STATUS, timeout_s=CHECK_S)
                status = ClusterHealth.model_validate_json(health).status
        except ProblemError as error:
            return Check(name=name, ok=False, detail=error.detail)
        return Check(name=name, ok=status != "red", detail=f"elasticsearch is {status}")

    async def version(self) -> str:
        """Returns the version of the cluster, read once. Not every distribution has `GET /`."""
        if self._version is None:
            self._version = (
                await self._reading.answer(Nodes.model_validate_json, "GET", "/_nodes", None, _VERSIONS)
            ).version
        return self._version

    async def create(self, generation: str, body: Mapping[str, Json]) -> HeldGeneration[Meta]:
        """Creates the index with these `settings` and `mappings`, or finds the existing one, which may be of another
        stamp. Raises Conflict if what has the name is not ours."""
        refuse_one_more(generation, await self.all(), self._most_generations)
        index = self.index(generation)
        with elasticsearch_errors(generation, writes=True):
            try:
                await self._writing.request("PUT", f"/{index}", {**body, "aliases": {self.writing(generation): {}}})
            except RefusedByElasticsearch as error:
                if error.cause.type != "resource_already_exists_exception":
                    raise
        try:
            return await self.held(generation)
        except UnknownCollection as error:
            raise Conflict(
                f"The index {index} exists and is not ours (or another release made it); {PREFIXES}, or remove it."
            ) from error

    async def known(self, generation: str) -> HeldGeneration[Meta]:
        """Returns a generation, read at most a second ago."""
        moment, held = self._remembered.get(generation, (0.0, None))
        return await self.held(generation) if held is None or time.monotonic() - moment > REMEMBERED_S else held

    async def held(self, generation: str) -> HeldGeneration[Meta]:
        """Reads a generation. Raises UnknownCollection, also for an index that is not ours."""
        self.forget(generation)
        ours = self._ours(await self._read(self.index(generation)))
        if generation not in ours:
            raise unknown_collection(generation)
        self._remembered[generation] = time.monotonic(), ours[generation]
        return ours[generation]

    async def all(self) -> dict[str, HeldGeneration[Meta]]:
        return self._ours(await self._read(f"{self.prefix}*@*"))

    async def sizes(self, pattern: str) -> dict[str, IndexSize]:
        """Reads the number of documents visible to searches and the bytes on the disk, by index."""
        path = f"/{pattern}/_stats/docs,store"
        return (await self._reading.answer(Statistics.model_validate_json, "GET", path, None, _SIZES)).indices

    def refresh_of_writes(self, held: HeldGeneration[Meta]) -> bool:
        """Returns whether a write is acknowledged when searches see it, by its `published` and the settings."""
        return held.published and self._refresh_live

    async def refresh(self, generation: str) -> None:
        """Makes all that was written visible to searches."""
        await self._broadcast(generation, "_refresh")

    async def finish(self, held: HeldGeneration[Meta]) -> None:
        """Refreshes, and merges a build to one segment per shard, which continues in Elasticsearch after a deadline.

        A published generation is left to Elasticsearch's own merges: one publish of a few writes would rewrite it all,
        to a segment that is too large to be merged again as its documents are replaced.
        """
        if not held.published:
            # Merging drops the copies of documents kept for recovery, but only of writes older than the last flush.
            await self._broadcast(held.generation, "_flush")
            await self._broadcast(held.generation, "_forcemerge?max_num_segments=1")
        await self.refresh(held.generation)

    async def digest(self, generation: str) -> str:
        """Computes the ContentDigest of all documents visible to searches, in one request."""
        sums = {part: {"sum": {"field": f"{DIGEST}.{part}"}} for part in _PARTS}
        body = {"size": 0, "aggs": sums, "track_total_hits": False}
        path, parse = f"/{self.index(generation)}/_search", SumsAnswer.model_validate_json
        answer = await self._reading.answer(parse, "POST", path, body, _SUMS, generation=generation)
        if answer.failed_shards:
            raise UpstreamFailed("A shard failed while all documents were being compared; try again.")
        return digest_of({part: total.value for part, total in answer.aggregations.items()})

    async def publish(self, generation: str, publication: int | None) -> None:
        """Records time and number, then moves the alias atomically.

        From then on writes are refreshed at once if the settings say so; others, and those in flight, within a second.
        """
        held = await self.held(generation)
        index = self.index(generation)
        if not held.published or held.meta.published_at is None:
            others = [
                other.meta.publication
                for other in (await self.all()).values()
                if other.generation != generation and name_of(other.generation) == name_of(generation)
            ]
            number = next_publication(publication, others)
            await self._keep(held, {"published_at": self._clock(), "publication": number})
        with elasticsearch_errors(generation, writes=True):
            await self._writing.request("PUT", f"/{index}/_settings", {"refresh_interval": "1s"})
            await self._move_alias(generation)
        await self.refresh(generation)
        self.forget(generation)

    async def drop(self, generation: str) -> None:
        """Deletes the index with its aliases."""
        await self.held(generation)
        with elasticsearch_errors(generation, writes=True):
            await self._writing.request("DELETE", f"/{self.index(generation)}")
        self.forget(generation)

    def forget(self, generation: str) -> None:
        """Drops the cached state of a generation."""
        self._remembered.pop(generation, None)

    @contextmanager
    def forget_if_gone(self, generation: str) -> Iterator[None]:
        """Drops the cached generation if the block raises UnknownCollection."""
        try:
            yield
        except UnknownCollection:
            self.forget(generation)
            raise

    async def _broadcast(self, generation: str, work: str) -> None:
        """Has every shard of a generation do some work. Raises UpstreamFailed if one could not."""
        path = f"/{self.index(generation)}/{work}"
        answer = await self._writing.answer(BroadcastAnswer.model_validate_json, "POST", path, generation=generation)
        if answer.failed_shards:
            raise UpstreamFailed(f"A shard of {generation} could not be finished; finish it again.")

    async def _keep(self, held: HeldGeneration[Meta], changes: Json) -> None:
        """Replaces keys of the `_meta`."""
        with elasticsearch_errors(held.generation, writes=True):
            meta = {**held.kept, **changes}
            await self._writing.request("PUT", f"/{self.index(held.generation)}/_mapping", {"_meta": meta})

    async def _move_alias(self, generation: str) -> None:
        """Moves the alias from the collection's other generations by name: a pattern could match foreign indices."""
        alias = self.alias(generation)
        for attempt in range(MOVES):
            others = await self._siblings(generation)
            removals = [{"remove": {"index": index, "alias": alias, "must_exist": False}} for index in others]
            addition = {"add": {"index": self.index(generation), "alias": alias}}
            try:
                await self._writing.request("POST", "/_aliases", {"actions": [*removals, addition]})
                return
            except RefusedByElasticsearch as error:
                # 404: another replica removed one of them meanwhile, and the update was not applied at all.
                if error.status != 404 or attempt + 1 == MOVES:
                    raise

    async def _siblings(self, generation: str) -> list[str]:
        """Returns our other indices of this collection. Raises Conflict if a foreign index has our alias."""
        alias = self.alias(generation)
        described = await self._read(f"{alias},{alias}@*")
        ours = self._ours(described)
        for index, description in described.items():
            if alias in description.aliases and index.removeprefix(self.prefix) not in ours:
                raise Conflict(
                    f"The alias {alias} is on the index {index}, which is not ours; remove it there, or {PREFIXES}."
                )
        return [self.index(other) for other in ours if other != generation and name_of(other) == name_of(generation)]

    async def _read(self, pattern: str) -> dict[str, IndexDescription]:
        """Reads the indices that match a pattern, ours or not."""
        return await self._reading.answer(INDEX_DESCRIPTIONS.validate_json, "GET", f"/{pattern}", None, _DESCRIPTIONS)

    def _ours(self, indices: Mapping[str, IndexDescription]) -> dict[str, HeldGeneration[Meta]]:
        held: dict[str, HeldGeneration[Meta]] = {}
        for index, described in indices.items():
            generation = index.removeprefix(self.prefix)
            kept = described.meta or {}
            meta = self._meta_of(kept)
            if meta is not None and index == self.index(generation) and is_generation(generation):
                published = self.alias(generation) in described.aliases
                held[generation] = HeldGeneration(generation, meta, kept, published)
        return held

    def _meta_of(self, kept: Json) -> Meta | None:
        """Parses the `_meta` of an index, ignoring unknown keys; returns None if the index is not ours."""
        try:
            meta = self._meta.model_validate(kept, extra="ignore")
        except ValidationError:
            return None
        return meta if meta.prefix == self.prefix else None
