"""Which key a Qdrant server gets with what: one that reads, one that writes, or one for both."""

import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr
from qdrant_client import AsyncQdrantClient

from services.chassis.errors import UpstreamFailed
from services.vectorstore.qdrant_connection import QdrantClients, QdrantServer
from services.vectorstore.store import VectorQuery
from services.vectorstore.store_qdrant import QdrantStore
from tests.support.qdrant_double import qdrant_double
from tests.support.vectors import SPEC, axis, random_points

pytestmark = [
    pytest.mark.filterwarnings("ignore:Api key is used with an insec"),
    pytest.mark.filterwarnings("ignore:Payload indexes have no effect"),
]
WRITING, READING = "the-writing-key", "the-reading-key"


def store_over(double: FastAPI, writing: str | None, reading: str | None = None) -> QdrantStore:
    def client(key: str | None) -> AsyncQdrantClient:
        transport = httpx.ASGITransport(app=double)
        return AsyncQdrantClient(url="http://qdrant", api_key=key, transport=transport, check_compatibility=False)

    writer = client(writing)
    return QdrantStore(QdrantClients(writer if reading is None else client(reading), writer), prefix="dense.")


async def assert_all_works(store: QdrantStore) -> None:
    """Checks every call of the port, and leaves notes@1 published."""
    points = random_points(4, 8)
    await store.create(SPEC)
    await store.upsert("notes@1", points)
    await store.finish("notes@1")
    await store.publish("notes@1")
    assert await store.delete("notes@1", [points[3].id]) == (1, {})
    await assert_reads(store)


async def assert_reads(store: QdrantStore) -> None:
    assert (await store.ready()).ok
    assert len(await store.search("notes@1", VectorQuery(axis(1.0), top=3))) == 3
    assert (await store.counts("notes@1")).documents == 3
    assert await store.published() == {"notes": "notes@1"}
    assert await store.publication("notes@1")
    assert await store.generations() == ("notes@1",)
    assert len(await store.stored("notes@1", ["d00000"], vectors=True)) == 1
    assert await store.digest("notes@1")


async def assert_no_write(store: QdrantStore) -> None:
    points = random_points(4, 8)
    for write in (store.upsert("notes@1", points), store.delete("notes@1", [points[0].id]), store.drop("notes@1")):
        with pytest.raises(UpstreamFailed, match="QDRANT_API_KEY"):
            await write


async def test_each_key_is_sent_with_its_own_calls_alone() -> None:
    double = qdrant_double(WRITING, read_key=READING)
    await assert_all_works(store_over(double, WRITING, READING))
    # Whether the collection exists is asked by the client that then creates it.
    assert double.state.sent == {"write": {WRITING}, "read": {READING, WRITING}}
    double.state.sent["read"].clear()
    await assert_reads(store_over(double, WRITING, READING))
    assert double.state.sent["read"] == {READING}


async def test_one_key_does_everything() -> None:
    double = qdrant_double(WRITING, read_key=READING)
    await assert_all_works(store_over(double, WRITING))
    assert double.state.sent == {"write": {WRITING}, "read": {WRITING}}


@pytest.mark.parametrize(("writing", "reading"), [(None, READING), (READING, None)], ids=["no other", "for both"])
async def test_with_a_key_that_reads_alone_searches_work_and_writes_name_the_setting(
    writing: str | None, reading: str | None
) -> None:
    double = qdrant_double(WRITING, read_key=READING)
    await assert_all_works(store_over(double, WRITING))
    store = store_over(double, writing, reading)
    await assert_reads(store)
    await assert_no_write(store)


async def test_searches_go_on_when_the_key_that_writes_is_changed_and_end_with_their_own() -> None:
    double = qdrant_double(WRITING, read_key=READING)
    store = store_over(double, WRITING, READING)
    await assert_all_works(store)
    double.state.keys["write"] = "another"
    await assert_reads(store)
    await assert_no_write(store)
    double.state.keys["read"] = "another"
    with pytest.raises(UpstreamFailed, match="QDRANT_SEARCH_API_KEY"):
        await store.search("notes@1", VectorQuery(axis(1.0), top=3))


async def test_with_one_key_there_is_one_client() -> None:
    clients = QdrantClients.of(QdrantServer("http://127.0.0.1:1", SecretStr(WRITING)))
    assert clients.reading is clients.writing
    await clients.close()
