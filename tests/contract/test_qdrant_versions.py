"""The Qdrant store on servers of several versions: what each can do, which one answered, and which is too old."""

from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from qdrant_client import AsyncQdrantClient

from services.chassis.errors import UpstreamFailed
from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.store_qdrant import QdrantStore
from tests.support.qdrant_double import qdrant_double
from tests.support.vectors import SPEC, axis, point

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


def client_over(transport: httpx.AsyncBaseTransport) -> AsyncQdrantClient:
    return AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)


def store_over(transport: httpx.AsyncBaseTransport) -> QdrantStore:
    client = client_over(transport)
    return QdrantStore(QdrantClients(client, client))


@pytest.fixture
def server() -> FastAPI:
    return qdrant_double()


@pytest.fixture
async def store(server: FastAPI) -> AsyncIterator[QdrantStore]:
    store = store_over(httpx.ASGITransport(app=server))
    yield store
    await store.close()


async def test_a_server_is_told_when_to_stop_a_write(server: FastAPI, store: QdrantStore) -> None:
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(1.0))])
    await store.delete("notes@1", ["a"])
    assert server.state.timeouts == ["10", "10"]


async def test_a_server_that_is_too_old_is_refused_in_one_sentence_and_nothing_is_made_there(
    server: FastAPI, store: QdrantStore
) -> None:
    server.state.version = "1.19.3"
    ready = await store.ready()
    assert not ready.ok
    assert ready.detail == "Qdrant 1.19.3 at QDRANT_URL is too old: 1.20 and newer are supported, so update it."
    with pytest.raises(UpstreamFailed, match=r"1\.19\.3 .*QDRANT_URL"):
        await store.create(SPEC)
    assert await store.generations() == ()


async def test_an_old_server_that_is_updated_is_taken_without_a_restart(server: FastAPI, store: QdrantStore) -> None:
    server.state.version = "1.19.3"
    assert not (await store.ready()).ok
    server.state.version = "1.20.1"
    assert (await store.ready()).ok
    await store.create(SPEC)


async def test_the_engine_names_the_version_that_answered(server: FastAPI, store: QdrantStore) -> None:
    assert store.engine.startswith("qdrant (client ")
    server.state.version = "1.20.1"
    ready = await store.ready()
    assert (ready.ok, ready.detail) == (True, "qdrant 1.20.1; 1.20 and newer are supported")
    assert store.engine.startswith("qdrant 1.20.1 (client ")


@pytest.mark.parametrize("nonsense", ["dev", "", "1"])
async def test_a_server_without_a_version_is_refused_and_nothing_is_raised(
    server: FastAPI, store: QdrantStore, nonsense: str
) -> None:
    server.state.version = nonsense
    ready = await store.ready()
    assert not ready.ok
    assert "gives no version" in ready.detail
