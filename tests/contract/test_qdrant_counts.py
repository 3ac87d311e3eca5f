"""Gateways list the generations of a Qdrant server every second, which does not count its points every second."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from qdrant_client import AsyncQdrantClient

from services.vectorservice import collections
from services.vectorstore import store_qdrant
from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.store_qdrant import QdrantStore
from tests.support.qdrant_double import qdrant_double
from tests.support.vectors import SPEC, axis, point

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


@pytest.fixture
def server() -> FastAPI:
    return qdrant_double()


@pytest.fixture
async def store(server: FastAPI) -> AsyncIterator[QdrantStore]:
    """Of one document."""
    client = AsyncQdrantClient(
        url="http://qdrant", transport=httpx.ASGITransport(app=server), check_compatibility=False
    )
    store = QdrantStore(QdrantClients(client, client))
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(0))])
    yield store
    await store.close()


async def listed(store: QdrantStore) -> int:
    [state] = (await collections.states(store, lambda: 0.0)).collections
    return state.documents


async def test_listing_counts_only_what_has_changed(store: QdrantStore, server: FastAPI) -> None:
    assert [await listed(store) for _ in range(5)] == [1] * 5
    assert len(server.state.counted) == 1
    await store.upsert("notes@1", [point("b", axis(1))])
    assert [await listed(store) for _ in range(5)] == [2] * 5
    assert len(server.state.counted) == 2


async def test_a_publish_compares_a_number_that_was_counted_for_it(store: QdrantStore, server: FastAPI) -> None:
    await listed(store)
    for number in (2, 3):
        assert (await collections.finish(store, "notes@1", None)).documents == 1
        assert len(server.state.counted) == number


async def test_a_number_is_counted_again_after_a_while(
    store: QdrantStore, server: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    await listed(store)
    monkeypatch.setattr(store_qdrant, "COUNT_SECONDS", 0.0)
    await listed(store)
    assert len(server.state.counted) == 2
