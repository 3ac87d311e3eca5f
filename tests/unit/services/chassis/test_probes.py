"""What /readyz asks of a store, which anybody may make it ask."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app
from services.chassis.deadlines import DEADLINE_HEADER
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests.telemetry import request_id
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.health import Check
from tests.support.keyed_app import connected


class Store:
    """A store that is asked whether it is ready, and answers when it may."""

    def __init__(self) -> None:
        self.asked: list[str] = []  # the id of the request for which
        self.is_asked, self.answers = asyncio.Event(), asyncio.Event()
        self.broken = False

    async def check(self) -> tuple[Check, ...]:
        self.asked.append(request_id())
        self.is_asked.set()
        await self.answers.wait()
        if self.broken:
            raise RuntimeError("unforeseen")
        return (Check(name="store", ok=True, detail=""),)


def app_over(store: Store) -> FastAPI:
    @asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        yield (), store.check

    return create_app("small", ServiceSettings(port=0), Instruments(), opened)


async def begun(store: Store) -> None:
    """Waits until the store is asked, and for a moment in which others may ask it too."""
    await store.is_asked.wait()
    await asyncio.sleep(0.01)


async def test_a_store_is_asked_once_at_a_time_whoever_asks_whether_we_are_ready() -> None:
    store = Store()
    async with connected(app_over(store)) as client:
        asking = [asyncio.create_task(client.get("/readyz")) for _ in range(20)]
        await begun(store)
        store.answers.set()
        assert {answer.status_code for answer in await asyncio.gather(*asking)} == {200}
        assert len(store.asked) == 1
        assert (await client.get("/readyz")).status_code == 200
    assert len(store.asked) == 2


async def test_who_asks_first_neither_ends_nor_bounds_the_answer_of_the_others() -> None:
    store = Store()
    async with connected(app_over(store)) as client:
        first = asyncio.create_task(client.get("/readyz", headers={DEADLINE_HEADER: "1", "x-request-id": "first"}))
        await begun(store)
        second = asyncio.create_task(client.get("/readyz"))
        await begun(store)
        first.cancel()
        store.answers.set()
        assert (await second).status_code == 200
    assert store.asked == ["-"]


async def test_a_check_that_fails_fails_for_all_who_wait_and_not_for_the_next() -> None:
    store = Store()
    store.broken = True
    async with connected(app_over(store)) as client:
        asking = [asyncio.create_task(client.get("/readyz")) for _ in range(2)]
        await begun(store)
        store.answers.set()
        assert [answer.status_code for answer in await asyncio.gather(*asking)] == [500, 500]
        store.broken = False
        assert (await client.get("/readyz")).status_code == 200
