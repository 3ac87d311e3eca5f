"""The Qdrant store on servers of several versions: what each can do, which one answered, and which is too old."""

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from fastapi import FastAPI
from qdrant_client import AsyncQdrantClient

from services.chassis.errors import Unavailable, UpstreamFailed
from services.vectorstore import qdrant_version
from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.representation import MultiVector, Storage
from services.vectorstore.store_qdrant import QdrantStore
from tests.contract.vector_store import VectorStoreSuite
from tests.support.qdrant_double import emptied, qdrant_double
from tests.support.vectors import DENSE, SPEC, Sample, axis, point

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


def client_over(transport: httpx.AsyncBaseTransport) -> AsyncQdrantClient:
    return AsyncQdrantClient(url="http://qdrant", transport=transport, check_compatibility=False)


def store_over(transport: httpx.AsyncBaseTransport) -> QdrantStore:
    client = client_over(transport)
    return QdrantStore(QdrantClients(client, client))


@pytest.fixture(scope="module")
def older() -> FastAPI:
    return qdrant_double(version="1.16.3")


@pytest.fixture(scope="module")
def client(older: FastAPI) -> AsyncQdrantClient:
    return client_over(httpx.ASGITransport(app=older))


class TestOn116(VectorStoreSuite):
    """Every promise, on a server that refuses a timeout with what changes points, whatever their representation."""

    @pytest.fixture
    def sample(self) -> Sample:
        return DENSE

    @pytest.fixture
    def any_sample(self) -> Sample:
        return DENSE

    @pytest.fixture
    async def store(self, older: FastAPI, client: AsyncQdrantClient) -> AsyncIterator[QdrantStore]:
        yield QdrantStore(QdrantClients(client, client))
        await emptied(older.state.engine)


@pytest.fixture
def server() -> FastAPI:
    return qdrant_double()


@pytest.fixture
async def store(server: FastAPI) -> AsyncIterator[QdrantStore]:
    store = store_over(httpx.ASGITransport(app=server))
    yield store
    await store.close()


async def test_a_server_that_can_stop_a_write_is_told_when(server: FastAPI, store: QdrantStore) -> None:
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(1.0))])
    await store.delete("notes@1", ["a"])
    assert server.state.timeouts == ["10", "10"]


@pytest.mark.parametrize(("storage", "first"), [("int8", "1.20"), ("bits", "1.18")])
async def test_a_server_without_the_codes_of_a_storage_is_refused(
    server: FastAPI, store: QdrantStore, storage: Storage, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_version, "VERSION_SECONDS", 0.0)
    spec = replace(SPEC, representation=MultiVector(8, storage))
    server.state.version = "1.17.1"
    with pytest.raises(UpstreamFailed, match=rf"cannot store token vectors as {storage}: update it to {first}"):
        await store.create(spec)
    assert await store.generations() == ()
    server.state.version = f"{first}.0"
    await store.create(spec)
    assert await store.generations() == ("notes@1",)


async def test_a_server_that_is_replaced_by_an_older_one_is_written_to_again(
    server: FastAPI, store: QdrantStore
) -> None:
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(1.0))])
    server.state.version = "1.16.3"
    with pytest.raises(UpstreamFailed, match="expected struct Duration"):
        await store.upsert("notes@1", [point("b", axis(1.0))])
    await store.upsert("notes@1", [point("b", axis(1.0))])
    assert (await store.counts("notes@1")).documents == 2


async def test_a_server_that_is_updated_meanwhile_is_told_again_when_to_stop(
    server: FastAPI, store: QdrantStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(qdrant_version, "VERSION_SECONDS", 0.0)
    server.state.version = "1.16.3"
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(1.0))])
    assert server.state.timeouts == []
    server.state.version = "1.18.1"
    await store.upsert("notes@1", [point("b", axis(1.0))])
    assert server.state.timeouts == ["10"]


async def test_a_server_that_is_too_old_is_refused_in_one_sentence_and_nothing_is_made_there(
    server: FastAPI, store: QdrantStore
) -> None:
    server.state.version = "1.15.5"
    ready = await store.ready()
    assert not ready.ok
    assert ready.detail == "Qdrant 1.15.5 at QDRANT_URL is too old: 1.16 and newer are supported, so update it."
    with pytest.raises(UpstreamFailed, match=r"1\.15\.5 .*QDRANT_URL"):
        await store.create(SPEC)
    assert await store.generations() == ()


async def test_a_server_that_is_replaced_by_one_that_is_too_old_is_not_written_to(
    server: FastAPI, store: QdrantStore
) -> None:
    await store.create(SPEC)
    await store.upsert("notes@1", [point("a", axis(1.0))])
    server.state.version = "1.15.5"
    assert not (await store.ready()).ok
    for change in (store.upsert("notes@1", [point("b", axis(1.0))]), store.delete("notes@1", ["a"])):
        with pytest.raises(UpstreamFailed, match=r"1\.15\.5 .*QDRANT_URL"):
            await change
    assert (await store.counts("notes@1")).documents == 1


async def test_an_old_server_that_is_updated_is_taken_without_a_restart(server: FastAPI, store: QdrantStore) -> None:
    server.state.version = "1.15.5"
    assert not (await store.ready()).ok
    server.state.version = "1.17.1"
    assert (await store.ready()).ok
    await store.create(SPEC)


async def test_the_engine_names_the_version_that_answered(server: FastAPI, store: QdrantStore) -> None:
    assert store.engine.startswith("qdrant (client ")
    server.state.version = "1.16.3"
    ready = await store.ready()
    assert (ready.ok, ready.detail) == (True, "qdrant 1.16.3; 1.16 and newer are supported")
    assert store.engine.startswith("qdrant 1.16.3 (client ")


@pytest.mark.parametrize("nonsense", ["dev", "", "1"])
async def test_a_server_without_a_version_is_refused_and_nothing_is_raised(
    server: FastAPI, store: QdrantStore, nonsense: str
) -> None:
    server.state.version = nonsense
    ready = await store.ready()
    assert not ready.ok
    assert "gives no version" in ready.detail


async def test_a_server_that_is_away_is_unavailable_whatever_its_version_was() -> None:
    away = False
    double = httpx.ASGITransport(app=qdrant_double())

    class Cable(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if away:
                raise httpx.ConnectError("refused", request=request)
            return await double.handle_async_request(request)

    store = store_over(Cable())
    await store.create(SPEC)
    away = True
    for _ in range(2):  # with the version known, and without
        with pytest.raises(Unavailable):
            await store.upsert("notes@1", [point("a", axis(1.0))])
    assert not (await store.ready()).ok
    away = False
    await store.upsert("notes@1", [point("a", axis(1.0))])
    await store.close()
