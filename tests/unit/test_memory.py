"""When memory is given back: after the last work, and not while any goes on."""

import asyncio

from services.inference.memory import WhenIdle, trim


async def test_it_acts_once_after_the_last_work() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    for _ in range(3):
        with idle:
            await asyncio.sleep(0)
    assert acted == []
    await asyncio.sleep(0.2)
    assert acted == [1]


async def test_it_does_not_act_while_work_goes_on() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    with idle:
        with idle:
            await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert acted == []
    await asyncio.sleep(0.2)
    assert acted == [1]


async def test_it_does_not_act_after_it_is_closed() -> None:
    acted: list[int] = []
    idle = WhenIdle(lambda: acted.append(1), idle_s=0.02)
    with idle:
        pass
    idle.close()
    await asyncio.sleep(0.1)
    assert acted == []


def test_trimming_can_be_called_on_any_system() -> None:
    trim()
