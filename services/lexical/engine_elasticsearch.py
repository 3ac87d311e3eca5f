"""Adapts Elasticsearch to LexicalEngine: an index for each generation, an alias for the published one."""

import time
from collections.abc import Callable, Sequence

from elasticsearch import BadRequestError, NotFoundError

from services.chassis.deadlines import current_deadline
from services.chassis.errors import Conflict, DeadlineExceeded, ProblemError, UnknownCollection, UpstreamFailed
from services.contracts.collections import CollectionDeclaration, CollectionState, Unusable
from services.contracts.documents import DeleteReport, Document, FetchedDocuments, IdPage, IdPageRequest, IndexReport
from services.contracts.generations import in_order, name_of
from services.contracts.health import Check
from services.contracts.retrieval import RetrievalRequest
from services.contracts.scored import Ranking, paired
from services.lexical.document_collector import WHOLE, ReadOptions
from services.lexical.elasticsearch_answers import BroadcastAnswer, ClusterHealth, HitsAnswer, Nodes
from services.lexical.elasticsearch_catalog import NO_SIZE, ElasticsearchCatalog, HeldGeneration, IndexSize
from services.lexical.elasticsearch_client import ElasticsearchClients, search_index, within_deadline
from services.lexical.elasticsearch_documents import (
    delete_documents,
    digest_documents,
    index_documents,
    page_of_ids,
)
from services.lexical.elasticsearch_errors import cause_of, elasticsearch_errors
from services.lexical.elasticsearch_mapping import (
    ONE_SHARD,
    IndexMeta,
    ShardCounts,
    index_body,
    stamp_beside,
    stamp_of_new,
)
from services.lexical.elasticsearch_query import ORDER, copy_preference, search_query
from services.lexical.elasticsearch_reading import get_documents
from services.lexical.presets import chosen_preset
from services.storage.builds import refuse_other_build
from services.storage.fields import requirements_of
from services.storage.quotas import DEFAULT_MOST_GENERATIONS, refuse_one_more
from services.storage.stamps import refuse_other_stamp, with_more_backends
from services.storage.write_order import next_publication

CHECK_S = 2.0
# Elasticsearch measures a search's timeout by a clock with steps of 200 ms (elastic/elasticsearch 11346): 10 ms across
# a step count as 200, and with 50 ms left one search in fifty ended early. So our side ends the call at the deadline,
# and Elasticsearch stops a search whose caller disconnects; its own timeout is only a bound for missed disconnects.
CLOCK_MS = 500
MOVES = 3
SEARCH_PARAMS = {
    "allow_partial_search_results": "false",
    "request_cache": "false",
    # Scores every shard by the term statistics of the whole index. Elasticsearch skips the step where there is one.
    "search_type": "dfs_query_then_fetch",
    "filter_path": "timed_out,_shards.failed,hits.hits.sort",
}


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
        self._clock = clock
        self._clients = clients
        self._reading, self._writing = clients.reading, clients.writing
        self._catalog = ElasticsearchCatalog(clients.reading, prefix)
        self._counts = counts
        self._most_generations = most_generations
        self._version: str | None = None

    async def check(self) -> Check:
        """Returns whether the cluster serves requests."""
        try:
            with elasticsearch_errors():
                answer = await self._reading.options(request_timeout=CHECK_S).cluster.health(filter_path="status")
                status = ClusterHealth.model_validate(answer.body).status
        except ProblemError as error:
            return Check(name="engine", ok=False, detail=error.detail)
        return Check(name="engine", ok=status != "red", detail=f"elasticsearch is {status}")

    async def begin(
        self, generation: str, declaration: CollectionDeclaration, build: str | None = None, owner: str | None = None
    ) -> CollectionState:
        """Creates the index, or finds the existing one and checks its stamp and build."""
        stamp = stamp_of_new(declaration, self._counts.shards)
        wanted = IndexMeta(prefix=self._catalog.prefix, declaration=declaration, stamp=stamp, build=build, owner=owner)
        body = index_body(wanted, self._counts)
        refuse_one_more(generation, await self._catalog.all(), self._most_generations)
        with elasticsearch_errors(generation, writes=True):
            try:
                await within_deadline(self._writing).indices.create(
                    index=self._catalog.index(generation),
                    settings=body["settings"],
                    mappings=body["mappings"],
                    aliases={self._catalog.writing(generation): {}},
                )
            except BadRequestError as error:
                if cause_of(error).type != "resource_already_exists_exception":
                    raise
        try:
            held = await self._catalog.held(generation)
        except UnknownCollection as error:
            index = self._catalog.index(generation)
            raise Conflict(
                f"The index {index} is there and not ours (or a newer release made it); set LEXICAL_INDEX_PREFIX to a "
                "name of its own, or remove it."
            ) from error
        refuse_other_stamp(generation, held.meta.stamp, stamp_beside(held.meta.stamp, declaration))
        refuse_other_build(generation, held.meta.build, build)
        if (more := with_more_backends(held.declaration, declaration)) is not None:
            meta = {**held.kept, "declaration": more.model_dump(mode="json")}
            with elasticsearch_errors(generation, writes=True):
                await within_deadline(self._writing).indices.put_mapping(
                    index=self._catalog.index(generation), meta=meta
                )
            held = await self._catalog.held(generation)
        return await self._state(held)

    async def states(self) -> tuple[CollectionState, ...]:
        """Reads all states in three requests."""
        held = await self._catalog.all()
        sizes = await self._catalog.sizes(self._catalog.index("*@*"))
        engine = await self._engine()
        return tuple(_state(held[one], sizes.get(self._catalog.index(one), NO_SIZE), engine) for one in in_order(held))

    async def unusable(self) -> tuple[Unusable, ...]:
        """Returns nothing: a server opens its own indices, and reports them in its health."""
        return ()

    async def state(self, generation: str) -> CollectionState:
        """Reads the state of one index."""
        return await self._state(await self._catalog.held(generation))

    async def drop(self, generation: str) -> None:
        """Deletes the index with its aliases."""
        await self._catalog.held(generation)
        with elasticsearch_errors(generation, writes=True):
            await within_deadline(self._writing).indices.delete(index=self._catalog.index(generation))
        self._catalog.forget(generation)

    async def index(self, generation: str, documents: Sequence[Document], version: int | None = None) -> IndexReport:
        """Indexes in one bulk request; retries items that Elasticsearch rejected for a full queue."""
        held = await self._catalog.usable(generation)
        alias = self._catalog.writing(generation)
        with self._catalog.forget_if_gone(generation):
            return await index_documents(
                self._clients, alias, documents, held.declaration, version=version, refresh=held.published
            )

    async def delete(self, generation: str, ids: Sequence[str], version: int | None = None) -> DeleteReport:
        """Deletes in one bulk request."""
        held = await self._catalog.usable(generation)
        with self._catalog.forget_if_gone(generation):
            alias = self._catalog.writing(generation)
            return await delete_documents(self._clients, alias, ids, version=version, refresh=held.published)

    async def get(self, generation: str, ids: Sequence[str], reading: ReadOptions = WHOLE) -> FetchedDocuments:
        """Reads by realtime get, in parts of bounded size."""
        held = await self._catalog.usable(generation)
        with self._catalog.forget_if_gone(generation):
            # Before it is published its documents are not visible to searches, so their sizes are unknown.
            largest = await self._catalog.largest(generation) if held.published else None
            return await get_documents(self._reading, self._catalog.index(generation), ids, reading, largest)

    async def ids(self, generation: str, asked: IdPageRequest) -> IdPage:
        """Reads the ids that searches see, in their order."""
        await self._catalog.usable(generation)
        with self._catalog.forget_if_gone(generation):
            return await page_of_ids(self._reading, self._catalog.index(generation), asked)

    async def finish(self, generation: str) -> CollectionState:
        """Refreshes, and merges a build to one segment a shard, which continues in Elasticsearch after a deadline.

        A published generation is left to Elasticsearch's own merges: one publish of a few writes would rewrite it all,
        to a segment that is too large to be merged again as its documents are replaced.
        """
        held = await self._catalog.usable(generation)
        index = self._catalog.index(generation)
        with elasticsearch_errors(generation, writes=True):
            answers = []
            if not held.published:
                answers.append(await within_deadline(self._writing).indices.forcemerge(index=index, max_num_segments=1))
            answers.append(await within_deadline(self._writing).indices.refresh(index=index))
            for answer in answers:
                if BroadcastAnswer.model_validate(answer.body).shards.failed:
                    raise UpstreamFailed(f"A shard of {generation} could not be finished; finish it again.")
        return await self._state(held)

    async def digest(self, generation: str) -> str:
        """Computes the digest page by page from the documents visible to searches."""
        await self._catalog.usable(generation)
        with self._catalog.forget_if_gone(generation):
            return await digest_documents(self._reading, self._catalog.index(generation))

    async def publish(self, generation: str, publication: int | None = None) -> CollectionState:
        """Records time and number, then moves the alias atomically.

        From then on writes are refreshed at once, and those already in flight within a second.
        """
        await self._catalog.usable(generation)
        held = await self._catalog.held(generation)
        index = self._catalog.index(generation)
        with elasticsearch_errors(generation, writes=True):
            if not held.published or held.meta.published_at is None:
                others = [
                    one.meta.publication
                    for one in (await self._catalog.all()).values()
                    if one.generation != generation and name_of(one.generation) == name_of(generation)
                ]
                number = next_publication(publication, others)
                meta = {**held.kept, "published_at": self._clock(), "publication": number}
                await within_deadline(self._writing).indices.put_mapping(index=index, meta=meta)
            await within_deadline(self._writing).indices.put_settings(index=index, settings={"refresh_interval": "1s"})
            await self._move_alias(generation)
            await within_deadline(self._writing).indices.refresh(index=index)
        return await self._state(await self._catalog.held(generation))

    async def search(self, generation: str, asked: RetrievalRequest) -> Ranking:
        """Searches ids and scores in one request."""
        declaration = (await self._catalog.usable(generation)).declaration
        preset = chosen_preset(declaration, asked.preset)
        requirements = requirements_of(asked.filter, declaration.metadata)
        with self._catalog.forget_if_gone(generation), elasticsearch_errors(generation):
            answer = await search_index(
                self._reading,
                self._catalog.index(generation),
                {
                    "query": search_query(preset, asked.query, requirements, asked.exclude_ids),
                    "size": asked.top,
                    "sort": ORDER,
                    "_source": False,
                    # Not `_id` either: the sort has the id. Reading `_id` decompresses the stored text of every hit:
                    # 1,000 hits took 25 ms instead of 6 (SciFact, Elasticsearch 8.19).
                    "stored_fields": "_none_",
                    "track_total_hits": False,
                    "timeout": f"{current_deadline().remaining_ms + CLOCK_MS}ms",
                },
                {**SEARCH_PARAMS, "preference": copy_preference(asked.query)},
            )
            found = HitsAnswer.model_validate(answer)
        if found.timed_out:
            raise DeadlineExceeded("Elasticsearch did not see all documents in time; send a larger X-Deadline-Ms.")
        if found.shards.failed:
            raise UpstreamFailed("A shard failed, so that documents would be missing from the ranking; try again.")
        return paired((hit.sort[1], hit.sort[0]) for hit in found.hits.hits)

    async def close(self) -> None:
        """Closes the connections."""
        await self._clients.close()

    async def _move_alias(self, generation: str) -> None:
        """Moves the collection's alias from its other generations, listed by name: a pattern could match foreign
        indices."""
        alias = self._catalog.alias(generation)
        for attempt in range(MOVES):
            others = await self._catalog.siblings(generation)
            removals = [{"remove": {"index": one, "alias": alias, "must_exist": False}} for one in others]
            addition = {"add": {"index": self._catalog.index(generation), "alias": alias}}
            try:
                await within_deadline(self._writing).indices.update_aliases(actions=[*removals, addition])
                return
            except NotFoundError:  # another replica removed one of them meanwhile; the update was not applied at all
                if attempt + 1 == MOVES:
                    raise

    async def _state(self, held: HeldGeneration) -> CollectionState:
        index = self._catalog.index(held.generation)
        sizes = await self._catalog.sizes(index)
        return _state(held, sizes.get(index, NO_SIZE), await self._engine())

    async def _engine(self) -> str:
        """Returns name and version of the cluster, read once. Not every distribution has `GET /`."""
        if self._version is None:
            with elasticsearch_errors():
                answer = await within_deadline(self._reading).nodes.info(filter_path="nodes.*.version")
                self._version = Nodes.model_validate(answer.body).version
        return f"elasticsearch {self._version}"


def _state(held: HeldGeneration, size: IndexSize, engine: str) -> CollectionState:
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
