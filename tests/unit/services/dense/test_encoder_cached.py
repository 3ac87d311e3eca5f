"""Cached query vectors: found by all that they depend on, within their memory; equal queries in flight encoded once."""

import asyncio
import contextlib
import tracemalloc

import numpy as np
import pytest

from services.chassis.deadlines import Deadline
from services.chassis.errors import DeadlineExceeded, Overloaded
from services.dense.encoder_cached import ENTRY_BYTES, CachedEncoder, QueryVectorCache
from services.dense.encoder_hashing import HashingEncoder
from services.storage.representation import DenseVector
from tests.support.passages import soon

STAMP = HashingEncoder.stamp
VECTOR_BYTES = 4 * HashingEncoder.representation.dimension + ENTRY_BYTES


class PacedEncoder(HashingEncoder):
    """Encodes a query when the test lets it, and records the queries that it was given."""

    def __init__(self) -> None:
        self.given: list[str] = []
        self.turns: asyncio.Queue[Exception | None] = asyncio.Queue()

    async def encode_query(self, text: str, deadline: Deadline) -> DenseVector:
        self.given.append(text)
        fault = await self.turns.get()
        if fault is not None:
            raise fault
        return await super().encode_query(text, deadline)


def cached(inner: HashingEncoder, most_bytes: int = 100_000) -> CachedEncoder:
    return CachedEncoder(inner, QueryVectorCache(STAMP, most_bytes))


async def begun(
    encoder: CachedEncoder, *texts: str, deadline: Deadline | None = None
) -> list[asyncio.Task[DenseVector]]:
    """Starts a request for each text, and lets all of them come as far as they can."""
    tasks = [asyncio.create_task(encoder.encode_query(text, deadline or soon())) for text in texts]
    await asyncio.sleep(0.01)
    return tasks


def test_every_part_of_the_stamp_and_the_text_counts():
    caches = [QueryVectorCache({**STAMP, name: "other"}, 0) for name in STAMP] + [QueryVectorCache(STAMP, 0)]
    keys = {cache.key(text) for cache in caches for text in ("", "chain", "Chain", "chain ", "\ud800")}
    assert len(keys) == 5 * (len(STAMP) + 1)
    assert QueryVectorCache(STAMP, 0).key("chain") == QueryVectorCache(STAMP, 1).key("chain")


def test_the_least_recently_used_vector_leaves_first():
    cache = QueryVectorCache(STAMP, 2 * VECTOR_BYTES)
    vector = np.zeros(HashingEncoder.representation.dimension, dtype=np.float32)
    cache.put(b"a", vector)
    cache.put(b"b", vector)
    cache.lookup(b"a")
    cache.put(b"c", vector)
    assert [cache.lookup(key) is None for key in (b"a", b"b", b"c")] == [False, True, False]
    assert cache.used_bytes == 2 * VECTOR_BYTES


async def test_the_cache_takes_no_more_memory_than_its_bytes():
    encoder = cached(HashingEncoder(), most_bytes=1_000_000)
    tracemalloc.start()
    try:
        for number in range(2_000):
            await encoder.encode_query(str(number), soon())
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 1_100_000


async def test_equal_queries_in_flight_are_encoded_once():
    inner = PacedEncoder()
    first, second, other = await begun(cached(inner), "chain", "chain", "brake")
    inner.turns.put_nowait(None)
    inner.turns.put_nowait(None)
    assert await first is await second
    assert (await other).any()
    assert inner.given == ["chain", "brake"]


async def test_after_a_cancelled_encoding_one_of_those_that_wait_for_it_encodes():
    inner = PacedEncoder()
    first, second, third = await begun(cached(inner), "chain", "chain", "chain")
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    inner.turns.put_nowait(None)
    assert await second is await third
    assert inner.given == ["chain", "chain"]


async def test_a_failure_reaches_only_the_request_that_met_it():
    inner = PacedEncoder()
    encoder = cached(inner)
    first, second = await begun(encoder, "chain", "chain")
    inner.turns.put_nowait(Overloaded("The queue is full.", retry_after_s=1))
    inner.turns.put_nowait(None)
    with pytest.raises(Overloaded):
        await first
    assert await second is await encoder.encode_query("chain", soon())
    assert inner.given == ["chain", "chain"]


async def test_a_request_that_waits_keeps_its_own_deadline():
    inner = PacedEncoder()
    encoder = cached(inner)
    (first,) = await begun(encoder, "chain")
    with pytest.raises(DeadlineExceeded):
        await encoder.encode_query("chain", Deadline.after_ms(5))
    inner.turns.put_nowait(None)
    assert (await first).any()


async def test_a_cached_vector_cannot_be_changed():
    vector = await cached(HashingEncoder()).encode_query("chain", soon())
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 1.0


async def test_no_encoding_stays_behind_after_random_cancellations():
    dice = np.random.default_rng(7)
    inner = PacedEncoder()
    encoder = cached(inner, most_bytes=2 * VECTOR_BYTES)
    for _ in range(100):
        tasks = await begun_at_once(encoder, [f"q{dice.integers(4)}" for _ in range(8)])
        for task in tasks:
            if dice.random() < 0.5:
                task.cancel()
            inner.turns.put_nowait(None if dice.random() < 0.7 else Overloaded("Full.", retry_after_s=1))
            await asyncio.sleep(0)
        for _ in tasks:
            inner.turns.put_nowait(None)
        await asyncio.wait(tasks, timeout=5)
        assert all(task.done() for task in tasks)
        inner.turns = asyncio.Queue()
    assert encoder._running == {}


async def begun_at_once(encoder: CachedEncoder, texts: list[str]) -> list[asyncio.Task[DenseVector]]:
    tasks = [asyncio.create_task(encoder.encode_query(text, soon())) for text in texts]
    await asyncio.sleep(0)
    return tasks
