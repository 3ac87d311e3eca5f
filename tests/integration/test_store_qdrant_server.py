"""The promises of VectorStore on a real Qdrant server, over REST and over gRPC, whenever QDRANT_URL names one.

Everything is made under a prefix of its own and removed. Settings: QDRANT_URL, QDRANT_API_KEY, QDRANT_SEARCH_API_KEY,
QDRANT_CA_FILE, DENSE_GRPC_PORT (6334).
"""

import os
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pydantic import SecretStr

from services.chassis.errors import UpstreamFailed
from services.contracts.collections import CollectionDeclaration
from services.vectorstore.qdrant_connection import QdrantServer
from services.vectorstore.qdrant_parameters import DEFAULT_PARAMETERS, QdrantParameters
from services.vectorstore.representation import Dense
from services.vectorstore.store import GenerationSpec, VectorQuery, VectorStore
from services.vectorstore.store_qdrant import QdrantStore
from tests.contract.token_vector_store import TokenVectorStoreSuite
from tests.contract.vector_store import VectorStoreSuite
from tests.support.approximate_search import assert_depth_changes_no_first_hit, found_share
from tests.support.vectors import SPEC, random_points, unit_rows

URL = os.environ.get("QDRANT_URL", "")
if not URL:
    pytest.skip("QDRANT_URL names no Qdrant server", allow_module_level=True)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:Api key is used with an insec"),
]


class StoreOnThisServer(QdrantStore):
    """Skips what a server of this version refuses to store; the message names the version that it needs."""

    async def create(self, spec: GenerationSpec) -> None:
        try:
            await super().create(spec)
        except UpstreamFailed as refused:
            if "cannot store token vectors" not in refused.detail:
                raise
            pytest.skip(refused.detail)


SHARDED = QdrantParameters(
    shard_number=2, replication_factor=1, on_disk=True, on_disk_payload=True, hnsw_m=24, quantisation="int8"
)


@pytest.fixture(params=["rest", "grpc", "sharded"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[QdrantStore]:
    key, search_key = os.environ.get("QDRANT_API_KEY"), os.environ.get("QDRANT_SEARCH_API_KEY")
    ca_file = os.environ.get("QDRANT_CA_FILE")
    server = QdrantServer(
        url=URL,
        api_key=SecretStr(key) if key else None,
        search_api_key=SecretStr(search_key) if search_key else None,
        ca_file=Path(ca_file) if ca_file else None,
        grpc_port=int(os.environ.get("DENSE_GRPC_PORT", "6334")) if request.param == "grpc" else None,
    )
    parameters = SHARDED if request.param == "sharded" else DEFAULT_PARAMETERS
    store = StoreOnThisServer.connect(server, prefix=f"test-{uuid.uuid4().hex[:12]}.", parameters=parameters)
    if request.param == "grpc" and not (ready := await store.ready()).ok:
        await store.close()
        pytest.skip(f"no gRPC there: {ready.detail}")
    yield store
    for generation in await store.generations():
        await store.drop(generation)
    await store.close()


class TestServer(VectorStoreSuite):
    """Every promise, on the server."""


class TestTokensOnServer(TokenVectorStoreSuite):
    """Every promise about token vectors, on the server."""


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
    assert np.array_equal(held["d00007"].vector, points[7].vector)
    queries = unit_rows(np.random.default_rng(3), 20, 384)
    await assert_depth_changes_no_first_hit(store, "wide@1", queries)
    narrow, broad = [await found_share(store, "wide@1", queries, beam) for beam in (26, 3_000)]
    assert narrow < 0.95 < broad or (store.stamp and broad > 0.95)  # each shard searches with the whole beam
