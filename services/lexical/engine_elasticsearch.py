"""Adapts Elasticsearch to LexicalEngine: an index for each generation, an alias for the published one."""

import time
from collections.abc import Callable, Sequence

from services.contracts.collections import CollectionDeclaration, CollectionState, Unusable
from services.contracts.documents import (
    MOST_BESIDE_HITS_BYTES,
    DeleteReport,
    Document,
    FetchedDocuments,
    IdPage,
    IdPageRequest,
    IndexReport,
)
from services.contracts.generations import in_order
from services.contracts.health import Check
from services.contracts.matches import CountRequest, FacetCounts, Matches
from services.contracts.retrieval import BrowseRequest, RetrievalRequest
from services.contracts.scored import Ranking
from services.lexical.document_collector import WHOLE, ReadOptions
from services.lexical.elasticsearch_documents import (
    Buckets,
    CountsAnswer,
    delete_documents,
    first_ids,
    get_documents,
    index_documents,
    largest_document,
    page_of_ids,
    ranked_documents,
)
from services.lexical.elasticsearch_mapping import (
    ONE_SHARD,
    IndexMeta,
    ShardCounts,
    among,
    copy_preference,
    filter_query,
    has_several_shards,
    index_body,
    search_query,
    stamp_beside,
    stamp_of_new,
)
from services.lexical.facets import CheckedFacet, checked_facets
from services.lexical.presets import chosen_preset
from services.storage.elasticsearch.answers import IndexSize
from services.storage.elasticsearch.client import ElasticsearchClients
from services.storage.elasticsearch.indices import NO_SIZE, REMEMBERED_S, GenerationIndices, HeldGeneration, Json
from services.storage.elasticsearch.searching import field_clause, ranked, search_all
from services.storage.fields import expect_sortable, requirements_of
from services.storage.generation_checks import DEFAULT_MOST_GENERATIONS, refuse_other_build, refuse_other_stamp

Held = HeldGeneration[IndexMeta]
# Scores every shard by the term statistics of the whole index. Elasticsearch skips the step where there is one.
EVERY_SHARD_ALIKE = {"search_type": "dfs_query_then_fetch"}
_COUNTS = "hits.total.value,aggregations.*.buckets.key,aggregations.*.buckets.doc_count"
# Every value of a shard: a value that is not among the first of one shard may be among the first of all.
_ALL_VALUES = 2**31 - 1


class ElasticsearchEngine:
    """Owns the clients. Keeps the promises of LexicalEngine, and no state that another replica would need."""

    def __init__(
        self,
        clients: ElasticsearchClients,
        prefix: str,
        counts: ShardCounts = ONE_SHARD,
        most_generations: int = DEFAULT_MOST_GENERATIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Does not connect yet: a service may start before its Elasticsearch. `clock` returns Unix seconds."""
        self._clients = clients
        self._reading = clients.reading
        self._indices = GenerationIndices(clients, prefix, IndexMeta, most_generations, clock)
        self._counts = counts
        self._checked: dict[str, Held] = {}  # as they were read when their stamps were checked
        self._largest: dict[str, tuple[float, int | None]] = {}

    async def check(self) -> Check:
        """Returns whether the cluster serves requests."""
        return await self._indices.check("engine")

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None, owner: str | None = None
    ) -> CollectionState:
        """Creates the index, or finds the existing one and checks its stamp and build."""
        stamp = stamp_of_new(declaration, self._counts.shards)
        prefix = self._indices.prefix
        wanted = IndexMeta(layout=2, prefix=prefix, declaration=declaration, stamp=stamp, build=build, owner=owner)
        held = await self._indices.create(generation, index_body(wanted, self._counts))
        refuse_other_stamp(generation, held.meta.stamp, stamp_beside(held.meta.stamp, declaration))
        refuse_other_build(generation, held.meta.build, build)
        return await self._state(held)

    async def states(self) -> tuple[CollectionState, ...]:
        """Reads all states in three requests."""
        held = await self._indices.all()
        sizes = await self._indices.sizes(self._indices.index("*@*"))
        engine = await self._engine()
        sizes_in_order = [(name, sizes.get(self._indices.index(name), NO_SIZE)) for name in in_order(held)]
        return tuple(_state(held[name], size, engine) for name, size in sizes_in_order)

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns nothing: a server opens its own indices, and reports them in its health."""
        return ()

    async def state(self, generation: str) -> CollectionState:
        """Reads the state of one index."""
        return await self._state(await self._indices.held(generation))

    async def build(self, generation: str) -> str | None:
        """Reads it with the `_meta` of the index."""
        return (await self._indices.held(generation)).meta.build

    async def drop(self, generation: str) -> None:
        """Deletes the index with its aliases."""
        await self._indices.drop(generation)
        self._largest.pop(generation, None)

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """Indexes in one bulk request; retries items that Elasticsearch rejected for a full queue."""
        held = await self._usable(generation)
        with self._indices.forget_if_gone(generation):
            return await index_documents(
                self._clients,
                self._indices.writing(generation),
                documents,
                held.declaration,
                version=version,
                refresh=self._indices.refresh_of_writes(held),
            )

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """Deletes in one bulk request."""
        held = await self._usable(generation)
        with self._indices.forget_if_gone(generation):
            refresh = self._indices.refresh_of_writes(held)
            return await delete_documents(
                self._clients, self._indices.writing(generation), ids, version=version, refresh=refresh
            )

    async def get(self, generation: str, ids: Sequence[str], reading: ReadOptions = WHOLE) -> FetchedDocuments:
        """Reads by realtime get, in parts of bounded size."""
        held = await self._usable(generation)
        with self._indices.forget_if_gone(generation):
            # Before it is published its documents are not visible to searches, so their sizes are unknown.
            largest = await self._largest_of(generation) if held.published else None
            return await get_documents(self._reading, self._indices.index(generation), ids, reading, largest)

    async def ids(self, generation: str, request: IdPageRequest) -> IdPage:
        """Reads the ids that searches see, in their order."""
        held = await self._usable(generation)
        query = filter_query(requirements_of(request.filter, held.declaration.metadata))
        with self._indices.forget_if_gone(generation):
            if not held.published:  # searches see nothing of a build until it is refreshed
                await self._indices.refresh(generation)
            return await page_of_ids(self._reading, self._indices.index(generation), generation, request, query)

    async def finish(self, generation: str) -> CollectionState:
        """Refreshes, and merges a build."""
        held = await self._usable(generation)
        await self._indices.finish(held)
        return await self._state(held)

    async def digest(self, generation: str) -> str:
        """Computes the digest of the documents visible to searches."""
        await self._usable(generation)
        with self._indices.forget_if_gone(generation):
            return await self._indices.digest(generation)

    async def publish(self, generation: str, publication: int | None = None) -> CollectionState:
        """Records time and number, then moves the alias atomically."""
        await self._usable(generation)
        await self._indices.publish(generation, publication)
        return await self._state(await self._indices.held(generation))

    async def search(self, generation: str, request: RetrievalRequest) -> Ranking:
        """Searches ids and scores in one request."""
        query, params = _query(await self._usable(generation), request)
        with self._indices.forget_if_gone(generation):
            index = self._indices.index(generation)
            return await ranked(self._reading, index, generation, {"query": query}, request.top, params)

    async def search_with_documents(
        self, generation: str, request: RetrievalRequest
    ) -> tuple[Ranking, tuple[Document, ...]]:
        """Reads all in one request, or no documents if so many of the largest one would be too large."""
        held = await self._usable(generation)
        query, params = _query(held, request)
        with self._indices.forget_if_gone(generation):
            largest = await self._largest_of(generation) if held.published else None
            if largest is None or largest * request.top > MOST_BESIDE_HITS_BYTES:
                return await self.search(generation, request), ()
            index = self._indices.index(generation)
            return await ranked_documents(self._reading, index, generation, query, request, params)

    async def browse(self, generation: str, request: BrowseRequest) -> tuple[str, ...]:
        """Sorts by the field, then by id."""
        declared = (await self._usable(generation)).declaration.metadata
        query = filter_query(requirements_of(request.filter, declared), request.exclude_ids)
        if request.sort is not None:
            expect_sortable(request.sort.field, declared)
        with self._indices.forget_if_gone(generation):
            index = self._indices.index(generation)
            return await first_ids(self._reading, index, generation, request, among(request.ids, query))

    async def count(self, generation: str, request: CountRequest) -> Matches:
        """Counts by aggregations in one request, in the copies that the search of this query reads."""
        held = await self._usable(generation)
        declared = held.declaration.metadata
        preset = chosen_preset(held.declaration, request.preset)
        requirements = requirements_of(request.filter, declared)
        query = filter_query(requirements, request.exclude_ids)
        if request.query:
            query = search_query(preset, request.query, requirements, request.exclude_ids)
        facets, several = checked_facets(request.facets, declared), has_several_shards(held.meta.stamp)
        body = {
            "query": among(request.ids, query),
            "size": 0,
            "track_total_hits": request.total,
            "aggs": {facet.request.field: _aggregation(facet, several) for facet in facets},
        }
        params = {"preference": copy_preference(request.query)}
        with self._indices.forget_if_gone(generation):
            index = self._indices.index(generation)
            answer = await search_all(self._reading, index, generation, body, _COUNTS, params, CountsAnswer)
        buckets = answer.aggregations
        counts = {facet.request.field: _counts(facet, buckets.get(facet.request.field, Buckets())) for facet in facets}
        return Matches(total=answer.total, facets=counts or None)

    async def close(self) -> None:
        """Closes the connections."""
        await self._clients.close()

    async def _usable(self, generation: str) -> Held:
        """Returns a generation, read at most a second ago. Raises StampMismatch if it was made with another mapping."""
        held = await self._indices.known(generation)
        if self._checked.get(generation) is not held:
            refuse_other_stamp(generation, held.meta.stamp, stamp_beside(held.meta.stamp, held.declaration))
            self._checked[generation] = held
        return held

    async def _largest_of(self, generation: str) -> int | None:
        """Returns the bytes of its largest document, read at most a second ago; None if unknown."""
        moment, size = self._largest.get(generation, (0.0, None))
        if time.monotonic() - moment > REMEMBERED_S:
            size = await largest_document(self._reading, self._indices.index(generation))
            self._largest[generation] = time.monotonic(), size
        return size

    async def _state(self, held: Held) -> CollectionState:
        index = self._indices.index(held.generation)
        sizes = await self._indices.sizes(index)
        return _state(held, sizes.get(index, NO_SIZE), await self._engine())

    async def _engine(self) -> str:
        return f"elasticsearch {await self._indices.version()}"


def _query(held: Held, request: RetrievalRequest) -> tuple[Json, dict[str, str]]:
    """Returns the query of a search, and parameters of its URL."""
    preset = chosen_preset(held.declaration, request.preset)
    requirements = requirements_of(request.filter, held.declaration.metadata)
    query = search_query(preset, request.query, requirements, request.exclude_ids)
    return query, {**EVERY_SHARD_ALIKE, "preference": copy_preference(request.query)}


def _state(held: Held, size: IndexSize, engine: str) -> CollectionState:
    return CollectionState(
        generation=held.generation,
        published=held.published,
        documents=size.documents,
        engine=engine,
        stamp=held.meta.stamp,
        declaration=held.declaration,
        build=held.meta.build,
        owner=held.meta.owner,
        published_at=held.meta.published_at,
        publication=held.meta.publication,
        bytes=size.bytes,
    )


def _aggregation(facet: CheckedFacet, several_shards: bool) -> Json:
    if facet.ranges:
        return {"filters": {"filters": [field_clause(bounds) for bounds in facet.ranges]}}
    return {
        "terms": {
            "field": f"fields.{facet.request.field}",
            "size": facet.request.top,
            "order": [{"_count": "desc"}, {"_key": "asc"}],
            **({"shard_size": _ALL_VALUES} if several_shards else {}),
        }
    }


def _counts(facet: CheckedFacet, aggregation: Buckets) -> FacetCounts:
    if facet.ranges:
        return facet.of_ranges([bucket.doc_count for bucket in aggregation.buckets])
    return facet.of_values([(bucket.key, bucket.doc_count) for bucket in aggregation.buckets])
