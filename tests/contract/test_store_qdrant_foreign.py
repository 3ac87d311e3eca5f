"""Collections of others on the same Qdrant server: whatever they are called, they are ignored, and never touched."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from qdrant_client import AsyncQdrantClient, models

from services.chassis.errors import Conflict, UnknownCollection
from services.vectorstore.qdrant_connection import QdrantClients
from services.vectorstore.store import Point, VectorQuery
from services.vectorstore.store_qdrant import QdrantStore
from tests.support.vectors import SPEC, axis

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

VECTORS = models.VectorParams(size=8, distance=models.Distance.DOT)
FOREIGN = {
    "dense.x@y": None,
    "dense.theirs@1": None,
    "dense.other@1": {"team": "theirs"},
    "dense.broken@1": {"layout": "1", "representation": "many", "stamp": 7, "declaration": "{"},
    "dense.later@1": {"layout": "2"},
    "dense.unknown@1": {"layout": "1", "stamp": {}, "declaration": "{}", "representation": {"kind": "tensor"}},
}


@pytest.fixture
async def shared() -> AsyncIterator[AsyncQdrantClient]:
    """A server with collections of others under our prefix."""
    client = AsyncQdrantClient(location=":memory:")
    for name, metadata in FOREIGN.items():
        await client.create_collection(name, vectors_config=VECTORS, metadata=metadata)
    yield client
    await client.close()


@pytest.mark.parametrize("taken", ["theirs@1", "other@1", "broken@1", "later@1", "unknown@1"])
async def test_a_collection_of_others_is_neither_read_nor_written_nor_removed(
    shared: AsyncQdrantClient, taken: str
) -> None:
    store = QdrantStore(QdrantClients(shared, shared), prefix="dense.")
    point = Point(id="a", vector=axis(0), content_hash="1", passage_hash="1", fields={})
    for call in (
        store.spec(taken),
        store.counts(taken),
        store.stored(taken, ["a"], vectors=True),
        store.upsert(taken, [point]),
        store.delete(taken, ["a"]),
        store.search(taken, VectorQuery(axis(0), 3)),
        store.scores(taken, ["a"], axis(0)),
        store.finish(taken),
        store.publish(taken),
        store.drop(taken),
    ):
        with pytest.raises(UnknownCollection, match=taken):
            await call
    assert {one.name for one in (await shared.get_collections()).collections} == set(FOREIGN)
    assert (await shared.count(f"dense.{taken}")).count == 0


async def test_publishing_takes_no_alias_from_a_collection_of_others(shared: AsyncQdrantClient) -> None:
    store = QdrantStore(QdrantClients(shared, shared), prefix="dense.")
    await store.create(SPEC)
    theirs = models.CreateAlias(collection_name="dense.theirs@1", alias_name="dense.notes")
    await shared.update_collection_aliases([models.CreateAliasOperation(create_alias=theirs)])
    with pytest.raises(Conflict, match=r"dense\.notes.*dense\.theirs@1"):
        await store.publish("notes@1")
    assert (await shared.get_aliases()).aliases[0].collection_name == "dense.theirs@1"
    assert await store.published() == {}


async def test_a_service_whose_prefix_begins_with_ours_keeps_its_collections_to_itself() -> None:
    client = AsyncQdrantClient(location=":memory:")
    ours, theirs = (
        QdrantStore(QdrantClients(client, client), prefix="dense."),
        QdrantStore(QdrantClients(client, client), prefix="dense.demo-"),
    )
    await theirs.create(SPEC)
    assert await ours.generations() == ()
    with pytest.raises(UnknownCollection):
        await ours.drop("demo-notes@1")
    assert await theirs.generations() == ("notes@1",)
    await client.close()


async def test_generations_of_ours_have_a_quota_and_foreign_ones_do_not_count(shared: AsyncQdrantClient) -> None:
    store = QdrantStore(QdrantClients(shared, shared), prefix="dense.", most_generations=2)
    spec = [replace(SPEC, generation=f"notes@{number}") for number in (1, 2, 3)]
    for one in (*spec[:2], spec[0]):
        await store.create(one)
    await store.publish("notes@1")
    with pytest.raises(Conflict, match="MOST_GENERATIONS"):
        await store.create(spec[2])
    await store.drop("notes@2")
    await store.create(spec[2])
