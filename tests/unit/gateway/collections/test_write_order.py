"""Checks that a pause waits for running writes, holds back new ones, and ends by itself."""

import asyncio

from gateway.collections.write_order import WritePauses


async def test_new_writes_wait_for_the_end_of_a_pause_and_others_do_not() -> None:
    pauses = WritePauses()
    order: list[str] = []

    async def write(name: str) -> None:
        async with pauses.write(name):
            order.append(name)

    async with pauses.pause("c", most_s=10.0):
        writing = asyncio.create_task(write("c"))
        await write("other")
        await asyncio.sleep(0.01)
        order.append("end")
    await writing
    assert order == ["other", "end", "c"]


async def test_a_pause_begins_when_the_writes_in_work_have_ended() -> None:
    pauses = WritePauses()
    order: list[str] = []

    async def pause() -> None:
        async with pauses.pause("c", most_s=10.0):
            order.append("paused")

    async with pauses.write("c"):
        pausing = asyncio.create_task(pause())
        await asyncio.sleep(0.01)
        order.append("written")
    await pausing
    assert order == ["written", "paused"]


async def test_a_pause_delays_writes_for_at_most_its_time() -> None:
    pauses = WritePauses()
    async with pauses.write("c"):  # hangs
        async with asyncio.timeout(5.0), pauses.pause("c", most_s=0.05):
            pass
        async with pauses.pause("c", most_s=0.05), asyncio.timeout(5.0), pauses.write("c"):
            pass
    async with asyncio.timeout(5.0), pauses.pause("c", most_s=10.0), asyncio.timeout(5.0), pauses.pause("c", 10.0):
        pass
    async with asyncio.timeout(5.0), pauses.write("c"):
        pass
