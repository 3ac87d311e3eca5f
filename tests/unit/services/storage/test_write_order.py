"""Writes of one id are ordered by version, and a generation changes only while no write runs."""

import asyncio

import pytest

from services.contracts.documents import COPIED_VERSION
from services.storage import write_order
from services.storage.write_order import Write, WriteOrder, WriteTurn

AT = "notes@1"


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


async def take(order: WriteOrder, version: int | None, *ids: str) -> list[str]:
    """Deletes all ids without a newer deletion; returns the others."""

    async def work(turn: WriteTurn) -> list[str]:
        turn.record_deleted(one for one in ids if one not in turn.overtaken)
        return sorted(turn.overtaken)

    return await order.write(Write(AT, version), ids, work)


async def test_a_write_is_overtaken_by_one_of_the_same_or_a_newer_version() -> None:
    order = WriteOrder()
    assert await take(order, 10, "a", "b") == []
    assert await take(order, 9, "a", "c") == ["a"]
    assert await take(order, 10, "b") == ["b"]
    assert await take(order, 11, "a", "b") == []


async def test_documents_fill_no_memory_so_that_no_later_write_is_called_overtaken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_order, "MOST_REMEMBERED", 10)
    order = WriteOrder()

    async def written(turn: WriteTurn) -> list[str]:
        return sorted(turn.overtaken)

    for version in range(1, 41):
        assert await order.write(Write(AT, version), [f"d{version}"], written) == []
    assert await order.write(Write(AT, 5), ["delayed"], written) == []


async def test_a_write_without_a_version_is_newer_than_all_before() -> None:
    order = WriteOrder(Clock())
    far_ahead = 2**62
    await take(order, far_ahead, "a")
    assert await take(order, None, "a") == []
    assert await take(order, far_ahead + 1, "a") == ["a"]


async def test_the_version_of_a_refused_write_is_not_recorded() -> None:
    order = WriteOrder()

    async def refused(_: WriteTurn) -> None:
        raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        await order.write(Write(AT, 10), ["a"], refused)
    assert await take(order, 5, "a") == []


async def test_writes_of_one_id_run_in_turn_and_those_of_different_ids_concurrently() -> None:
    order, going_on = WriteOrder(), asyncio.Event()
    ended: list[str] = []

    async def slow(_: WriteTurn) -> None:
        await going_on.wait()
        ended.append("slow")

    async def quick(_: WriteTurn) -> None:
        ended.append("quick")

    first = asyncio.create_task(order.write(Write(AT, 1), ["a", "b"], slow))
    await asyncio.sleep(0)
    same = asyncio.create_task(order.write(Write(AT, 2), ["b"], quick))
    await order.write(Write(AT, 3), ["c"], quick)
    assert ended == ["quick"]
    going_on.set()
    await asyncio.gather(first, same)
    assert ended == ["quick", "slow", "quick"]


async def test_a_generation_is_changed_only_while_no_write_to_it_runs() -> None:
    order, going_on = WriteOrder(), asyncio.Event()
    ended: list[str] = []

    async def slow(_: WriteTurn) -> None:
        await going_on.wait()
        ended.append("write")

    async def drop() -> None:
        ended.append("drop")

    async def late(_: WriteTurn) -> None:
        ended.append("late write")

    writing = asyncio.create_task(order.write(Write(AT, 1), ["a"], slow))
    await asyncio.sleep(0)
    dropping = asyncio.create_task(order.change(AT, drop))
    await asyncio.sleep(0)
    after = asyncio.create_task(order.write(Write(AT, 2), ["b"], late))
    await order.change("other@1", drop)
    assert ended == ["drop"]
    going_on.set()
    await asyncio.gather(writing, dropping, after)
    assert ended == ["drop", "write", "drop", "late write"]


async def test_a_write_whose_caller_was_cancelled_ends_before_the_next_write_of_its_ids() -> None:
    order, going_on = WriteOrder(), asyncio.Event()
    stored: list[int] = []

    async def slow(turn: WriteTurn) -> None:
        await going_on.wait()
        stored.append(turn.version)
        turn.record_deleted(["a"])

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await order.write(Write(AT, 1), ["a"], slow)
    newer = asyncio.create_task(order.write(Write(AT, 2), ["a"], slow))
    await asyncio.sleep(0)
    going_on.set()
    await newer
    assert stored == [1, 2]


async def test_a_caller_cancelled_in_the_queue_delays_no_other() -> None:
    order, going_on = WriteOrder(), asyncio.Event()

    async def slow(_: WriteTurn) -> None:
        await going_on.wait()

    async def nothing() -> None: ...

    first = asyncio.create_task(order.write(Write(AT, 1), ["a"], slow))
    await asyncio.sleep(0)
    for waiting in (order.write(Write(AT, 2), ["a"], slow), order.change(AT, nothing)):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await waiting
    going_on.set()
    await first
    assert await take(order, 3, "a") == []


async def test_dropped_versions_count_as_newer_so_that_no_old_write_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(write_order, "MOST_REMEMBERED", 10)
    clock = Clock()
    order = WriteOrder(elapsed=clock)
    for version in range(1, 41):
        await take(order, version, f"d{version}")
    assert await take(order, 5, "never seen") == ["never seen"]
    assert await take(order, 35, "d36", "seldom") == ["d36"]
    clock.now += 10_000.0
    await take(order, 50, "a")
    clock.now += 10_000.0
    await take(order, 51, "a")
    assert await take(order, 40, "b") == ["b"]


async def test_a_copy_is_refused_for_a_remembered_deletion_of_its_id_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_order, "MOST_REMEMBERED", 10)
    order = WriteOrder()
    for version in range(2, 41):
        await take(order, version, f"d{version}")

    async def copied(turn: WriteTurn) -> list[str]:
        return sorted(turn.overtaken)

    assert await order.write(Write(AT, COPIED_VERSION), ["d40", "never deleted"], copied) == ["d40"]


async def test_a_clock_that_is_set_drops_no_version() -> None:
    clock = Clock()
    order = WriteOrder(clock)
    for version, step_s in ((10, 10_000.0), (11, 10_000.0), (12, -20_000.0)):
        await take(order, version, f"d{version}")
        clock.now += step_s
    assert await take(order, 5, "never seen") == []


async def test_a_removed_generation_leaves_nothing_behind() -> None:
    order = WriteOrder()
    await take(order, 10, "a")

    async def drop() -> None:
        order.forget(AT)

    await order.change(AT, drop)
    assert await take(order, 5, "a") == []
    await order.change(AT, drop)
    assert not order._memories
