"""The promises of VectorStore on a real Qdrant server, whenever QDRANT_URL names one.

Everything is made under a prefix of its own and removed. Settings: QDRANT_URL, QDRANT_API_KEY, QDRANT_SEARCH_API_KEY,
QDRANT_CA_FILE. Without a server, a test opens and removes the stores on the double.
"""

import os
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from services.contracts.collections import CollectionDeclaration
from services.storage.representation import Dense
from services.vectorstore.qdrant_connection import QdrantClients, QdrantServer
from services.vectorstore.qdrant_parameters import DEFAULT_PARAMETERS, QdrantParameters
from services.vectorstore.store import VectorQuery, VectorStore
from services.vectorstore.store_qdrant import QdrantStore
from tests.contract.token_vector_store import TokenVectorStoreSuite
from tests.contract.vector_store import VectorStoreSuite
from tests.support.approximate_search import assert_depth_changes_no_first_hit, found_share
from tests.support.qdrant_double import qdrant_double
from tests.support.served import served
from tests.support.vectors import SPEC, axis, point, random_points, same, unit_rows

URL = os.environ.get("QDRANT_URL", "")
WAYS = ("plain", "sharded")
pytestmark = pytest.mark.filterwarnings("ignore:Api key is used with an insec")
on_server = pytest.mark.skipif(not URL, reason="QDRANT_URL names no Qdrant server")


SHARDED = QdrantParameters(shard_number=2, replication_factor=1, on_disk=True, quantisation="int8")


@asynccontextmanager
async def opened(url: str, way: str) -> AsyncIterator[QdrantStore]:
    """Yields a store on a server, and removes what was made in it."""
    key, search_key = os.environ.get("QDRANT_API_KEY"), os.environ.get("QDRANT_SEARCH_API_KEY")
    ca_file = os.environ.get("QDRANT_CA_FILE")
    server = QdrantServer(
        url=url,
        api_key=SecretStr(key) if key else None,
        search_api_key=SecretStr(search_key) if search_key else None,
        ca_file=Path(ca_file) if ca_file else None,
    )
    parameters = SHARDED if way == "sharded" else DEFAULT_PARAMETERS
    prefix = f"test-{uuid.uuid4().hex[:12]}."
    store = QdrantStore(QdrantClients.of(server), prefix=prefix, parameters=parameters)
    try:
        yield store
        for generation in await store.generations():
            await store.drop(generation)
    finally:
        await store.close()


@pytest.fixture(params=WAYS)
async def store(request: pytest.FixtureRequest) -> AsyncIterator[QdrantStore]:
    async with opened(URL, request.param) as store:
        yield store


@pytest.mark.parametrize("way", WAYS)
async def test_the_stores_of_these_tests_open_and_leave_nothing_behind(way: str) -> None:
    with served(server := qdrant_double()) as url:
        async with opened(url, way) as store:
            await store.create(SPEC)
            await store.upsert("notes@1", [point("a", axis(1.0))])
            hits = await store.search("notes@1", VectorQuery(axis(1.0), top=1))
            assert [hit.id for hit in hits] == ["a"]
        assert (await server.state.engine.get_collections()).collections == []


@pytest.mark.integration
@on_server
class TestServer(VectorStoreSuite):
    """Every promise, on the server."""


@pytest.mark.integration
@on_server
class TestTokensOnServer(TokenVectorStoreSuite):
    """Every promise about token vectors, on the server."""

    @pytest.fixture
    def shards(self, store: QdrantStore) -> int:
        return 2 if store.stamp else 1


@pytest.mark.integration
@on_server
async def test_finish_waits_until_the_vectors_are_indexed(store: VectorStore) -> None:
    await store.create(
        replace(SPEC, generation="wide@1", representation=Dense(384), declaration=CollectionDeclaration())
    )
    points = random_points(3000, 384)
    for start in range(0, 3000, 250):
        await store.upsert("wide@1", points[start : start + 250])
    exact = VectorQuery(points[7].vector, top=100, exact=True)
    before = await store.search("wide@1", exact)
    await store.finish("wide@1")
    counts = await store.counts("wide@1")
    assert counts.documents == 3000
    assert counts.indexed > 0 or store.stamp  # half as many a shard may be too few for a graph
    assert [hit.id for hit in await store.search("wide@1", exact)] == [hit.id for hit in before]
    held = await store.stored("wide@1", ["d00007"], vectors=True)
    assert held["d00007"].vector is not None
    assert same(points[7].vector, held["d00007"].vector)
    queries = list(unit_rows(np.random.default_rng(3), 20, 384))
    await assert_depth_changes_no_first_hit(store, "wide@1", queries)
    narrow, broad = [await found_share(store, "wide@1", queries, beam) for beam in (26, 3_000)]
    assert narrow < 0.95 < broad or (store.stamp and broad > 0.95)  # each shard searches with the whole beam
