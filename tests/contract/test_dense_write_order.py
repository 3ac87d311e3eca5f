"""A batch that a newer one overtakes while its passages are being encoded, over a real store."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from services.chassis.deadlines import Deadline
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import DocumentWithVectors
from services.dense.encoder import Vectors
from services.dense.encoder_hashing import HashingEncoder
from services.storage.write_order import Write, WriteOrder
from services.vectorservice import indexing
from services.vectorstore.store import GenerationSpec
from services.vectorstore.store_edge import EdgeStore


class HeldEncoder(HashingEncoder):
    """Begins to encode, and goes on when it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def encode_passages(self, texts: Sequence[str], deadline: Deadline) -> Vectors:
        self.begun.set()
        await self.go.wait()
        return await super().encode_passages(texts, deadline)


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[EdgeStore]:
    store = EdgeStore(tmp_path / "dense")
    await store.create(
        GenerationSpec("c@1", HashingEncoder.representation, HashingEncoder.stamp, CollectionDeclaration())
    )
    yield store
    await store.close()


async def test_what_was_written_while_an_older_batch_was_encoded_stays(store: EdgeStore) -> None:
    order, slow, deadline = WriteOrder(), HeldEncoder(), Deadline.after_ms(60_000)
    older, newer = DocumentWithVectors(id="a", text="older"), DocumentWithVectors(id="a", text="newer")
    writing = asyncio.create_task(indexing.index(store, slow, order, Write("c@1", 1), [older], deadline))
    await slow.begun.wait()
    report = await indexing.index(store, HashingEncoder(), order, Write("c@1", 2), [newer], deadline)
    assert (report.indexed, report.errors) == (1, ())
    slow.go.set()
    late = await writing
    assert (late.indexed, late.latest_version, [error.overtaken for error in late.errors]) == (0, 2, [True])
    assert (await store.stored("c@1", ["a"], vectors=False))["a"].content_hash == newer.content_hash
