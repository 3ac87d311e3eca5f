"""The promises of VectorStore about dense vectors on a real Elasticsearch, and what the adapter adds."""

import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import numpy as np
import pytest
from elasticsearch import AsyncElasticsearch

from services.chassis.deadlines import Deadline, set_deadline
from services.chassis.errors import BadInput, UnknownCollection, UpstreamFailed
from services.contracts.collections import CollectionDeclaration
from services.dense.app import build_app
from services.dense.settings import DenseSettings
from services.storage.elasticsearch.client import ElasticsearchClients
from services.storage.representation import Dense, Sparse
from services.vectorservice.compose import open_store
from services.vectorstore.store import GenerationSpec, VectorQuery, VectorStore
from services.vectorstore.store_elasticsearch import ElasticsearchStore
from tests.contract.vector_store import VectorStoreSuite
from tests.support.approximate_search import assert_depth_changes_no_first_hit, found_share
from tests.support.opened_client import opened_client
from tests.support.two_writers import assert_the_newest_write_of_each_id_stays
from tests.support.vectors import SPEC, axis, point, random_points, unit_rows

# The first test waits for the server to start.
pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]


class DenseOnly(ElasticsearchStore):
    """Skips the promises about vectors that are not served there."""

    async def create(self, spec: GenerationSpec) -> None:
        try:
            await super().create(spec)
        except BadInput as refused:
            if "only dense vectors are served" not in refused.detail:
                raise
            pytest.skip(refused.detail)


@pytest.fixture
def settings(elasticsearch_url: str) -> DenseSettings:
    prefix = f"test-{uuid.uuid4().hex[:12]}."
    return DenseSettings(store="elasticsearch", elasticsearch_url=elasticsearch_url, prefix=prefix)


@pytest.fixture
async def client(settings: DenseSettings) -> AsyncIterator[AsyncElasticsearch]:
    async with AsyncElasticsearch(settings.elasticsearch_url, request_timeout=120) as client:
        yield client
        left = (await client.indices.get(index=f"{settings.prefix}*")).body
        if left:
            await client.indices.delete(index=list(left))


@pytest.fixture
async def store(settings: DenseSettings, client: AsyncElasticsearch) -> AsyncIterator[VectorStore]:
    store = DenseOnly(ElasticsearchClients.connect(settings, 8), settings.prefix)
    yield store
    await store.close()


@pytest.fixture
async def coded(settings: DenseSettings, client: AsyncElasticsearch) -> AsyncIterator[VectorStore]:
    store = DenseOnly(ElasticsearchClients.connect(settings, 8), settings.prefix, quantisation="int8")
    yield store
    await store.close()


class TestElasticsearch(VectorStoreSuite):
    """Every promise, on the server."""

    engine = "elasticsearch 8"


class TestCodesOfElasticsearch(VectorStoreSuite):
    """Every promise, with codes of 8 bits."""

    engine = "elasticsearch 8"

    @pytest.fixture
    def store(self, coded: VectorStore) -> VectorStore:
        return coded


@pytest.fixture
async def notes(store: VectorStore) -> VectorStore:
    await store.create(SPEC)
    return store


async def found(store: VectorStore) -> list[str]:
    return [hit.id for hit in await store.search("notes@1", VectorQuery(axis(1.0), top=10))]


async def test_what_is_no_dense_vector_is_refused_with_the_engines_that_serve_it(settings: DenseSettings) -> None:
    store = open_store(settings)
    with pytest.raises(BadInput, match="Edge or Qdrant"):
        await store.create(replace(SPEC, representation=Sparse()))
    with pytest.raises(UnknownCollection):
        await store.spec("notes@1")
    await store.close()


async def test_codes_find_the_candidates_and_the_vectors_score_them(
    coded: VectorStore, client: AsyncElasticsearch, settings: DenseSettings
) -> None:
    set_deadline(Deadline.after_ms(120_000))
    await coded.create(replace(SPEC, generation="wide@1", representation=Dense(96)))
    await coded.upsert("wide@1", random_points(1_500, 96))
    await coded.finish("wide@1")
    index = f"{settings.prefix}wide@1"
    properties = (await client.indices.get_mapping(index=index)).body[index]["mappings"]["properties"]
    assert [properties[field]["index_options"]["type"] for field in ("vector", "scanned")] == ["int8_hnsw", "flat"]
    queries = list(unit_rows(np.random.default_rng(3), 20, 96))
    await assert_depth_changes_no_first_hit(coded, "wide@1", queries)
    for query in queries:
        exact = await coded.search("wide@1", VectorQuery(query, top=100, exact=True))
        whole = await coded.search("wide@1", VectorQuery(query, top=100, beam=1_500))
        assert [hit.id for hit in whole] == [hit.id for hit in exact]
        assert [hit.score for hit in whole] == pytest.approx([hit.score for hit in exact], abs=1e-6)


async def test_dot_products_below_zero_and_vectors_of_any_length_keep_their_scores(notes: VectorStore) -> None:
    held = {"long": axis(50.0), "zero": axis(), "against": axis(-0.25), "far": axis(-300.0), "near": axis(0.001)}
    await notes.upsert("notes@1", [point(identity, vector) for identity, vector in held.items()])
    for exact in (True, False):
        hits = await notes.search("notes@1", VectorQuery(axis(2.0), top=10, exact=exact))
        assert [hit.id for hit in hits] == ["long", "near", "zero", "against", "far"]
        assert [hit.score for hit in hits] == pytest.approx([100.0, 0.002, 0.0, -0.5, -600.0], rel=1e-4, abs=1e-6)


async def test_a_build_is_one_graph_once_it_is_finished_and_depth_changes_no_first_hit(
    store: VectorStore, client: AsyncElasticsearch, settings: DenseSettings
) -> None:
    set_deadline(Deadline.after_ms(120_000))
    spec = replace(SPEC, generation="wide@1", representation=Dense(96), declaration=CollectionDeclaration())
    await store.create(spec)
    points = random_points(1_500, 96)
    for start in range(0, 1_500, 500):
        await store.upsert("wide@1", points[start : start + 500])
        await store.counts("wide@1")  # makes a segment
    exact = VectorQuery(points[7].vector, top=100, exact=True)
    before = await store.search("wide@1", exact)
    await store.finish("wide@1")
    counts = await store.counts("wide@1")
    assert (counts.documents, counts.indexed) == (1_500, 1_500)
    index = f"{settings.prefix}wide@1"
    segments = (await client.indices.segments(index=index)).body["indices"][index]["shards"]["0"][0]
    assert segments["num_search_segments"] == 1
    assert [hit.id for hit in await store.search("wide@1", exact)] == [hit.id for hit in before]
    queries = list(unit_rows(np.random.default_rng(3), 20, 96))
    await assert_depth_changes_no_first_hit(store, "wide@1", queries)
    narrow, broad = [await found_share(store, "wide@1", queries, beam) for beam in (26, 1_500)]
    assert narrow < 0.99 < broad


async def test_another_replica_sees_writes_and_publications(notes: VectorStore, settings: DenseSettings) -> None:
    other = open_store(settings)
    await notes.upsert("notes@1", [point("a", axis(1.0))])
    assert await found(other) == ["a"]
    await notes.publish("notes@1")
    assert await other.published() == {"notes": "notes@1"}
    await other.close()


async def test_more_dimensions_than_the_server_has_are_refused_with_its_reason(store: VectorStore) -> None:
    with pytest.raises(UpstreamFailed, match="4096"):
        await store.create(replace(SPEC, representation=Dense(5_000)))


async def test_the_dense_service_builds_publishes_and_searches_on_it(
    settings: DenseSettings, store: VectorStore
) -> None:
    app = build_app(settings.model_copy(update={"encoder": "hashing"}))
    texts = {"a": "oil the chain", "b": "bleed the brake"}
    batch = {"documents": [{"id": identity, "text": text} for identity, text in texts.items()]}
    async with opened_client(app) as client:
        assert (await client.get("/readyz")).status_code == 200
        path = "/v1/collections/notes@1"
        await client.put(path, json={})
        for expected in (2, 0):
            assert (await client.post(f"{path}/documents", json=batch)).json()["encoded"] == expected
        await client.post(f"{path}/finish", json={})
        state = (await client.post(f"{path}/publish", json={})).json()
        assert (state["published"], state["documents"], state["engine"][:15]) == (True, 2, "elasticsearch 8")
        hits = (await client.post(f"{path}/search", json={"query": "chain"})).json()["hits"]
        assert [hit["id"] for hit in hits] == ["a", "b"]
    assert await store.published() == {"notes": "notes@1"}


async def test_of_two_services_writes_the_newest_of_each_id_stays(
    settings: DenseSettings, client: AsyncElasticsearch
) -> None:
    hashing = settings.model_copy(update={"encoder": "hashing"})
    await assert_the_newest_write_of_each_id_stays([build_app(hashing), build_app(hashing)], 2_000, deletions=0.1)


async def test_a_write_older_than_a_deletion_stays_away(notes: VectorStore) -> None:
    await notes.upsert("notes@1", [point("a", axis(1.0))], 1_000)
    assert await notes.delete("notes@1", ["a"], 3_000) == (1, {})
    assert await notes.upsert("notes@1", [point("a", axis(1.0))], 2_000) == {"a": 2_000}
    assert await found(notes) == []
