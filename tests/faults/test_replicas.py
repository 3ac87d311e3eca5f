"""Checks how many answers are degraded, and for how long, when one of two replicas fails. Over real sockets."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import pytest

from gateway.app import SocketEndpoints
from tests.support.replicas import (
    CALLERS,
    DEADLINE_S,
    Replica,
    ReplicaFault,
    address,
    balanced,
    opened_gateway,
    resolved_to_all,
    two_replicas,
)
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.alone]

QUERIES = 800
FAULTS: tuple[ReplicaFault, ...] = ("500", "hung", "503", "reset", "garbage")


@asynccontextmanager
async def working_replicas() -> AsyncIterator[tuple[Replica, Replica]]:
    async with two_replicas() as both:
        for replica in both:
            replica.work_s = 0.005
        yield both


@pytest.fixture
async def replicas() -> AsyncIterator[tuple[Replica, Replica]]:
    async with working_replicas() as both:
        yield both


@pytest.mark.parametrize("fault", FAULTS[:3])
@repeated_when_late
async def test_one_broken_replica_behind_one_address_degrades_less_than_a_hundredth(fault: ReplicaFault) -> None:
    async with (
        working_replicas() as replicas,
        balanced(replicas) as balancer,
        two_replicas() as (dense, _),
        opened_gateway(SocketEndpoints(address(f"http://127.0.0.1:{balancer.port}")), dense) as searches,
    ):
        assert await searches.count_degraded(100) == 0
        replicas[0].fault = fault
        first = await searches.count_degraded(100)
        later = await searches.count_degraded(QUERIES)
    assert set(searches.statuses) == {200}
    with timed():
        assert searches.slowest_s < DEADLINE_S + 0.05
        assert first <= CALLERS  # those under way when it broke
        # Without probes of new connections five of 800 are degraded.
        assert later < QUERIES / 200


@pytest.mark.parametrize("fault", ["killed", *FAULTS])
@repeated_when_late
async def test_one_broken_replica_of_two_addresses_degrades_less_than_a_hundredth(
    fault: ReplicaFault | Literal["killed"],
) -> None:
    async with (
        working_replicas() as replicas,
        two_replicas() as (dense, _),
        opened_gateway(resolved_to_all(replicas), dense) as searches,
    ):
        assert await searches.count_degraded(100) == 0
        if fault == "killed":
            await replicas[0].stop()
        else:
            replicas[0].fault = fault
        first = await searches.count_degraded(100)
        later = await searches.count_degraded(QUERIES)
    assert set(searches.statuses) == {200}
    with timed():
        assert searches.slowest_s < DEADLINE_S + 0.05
        assert first <= CALLERS  # those under way when it broke
        assert later < QUERIES / 100


async def test_a_repaired_replica_gets_its_share_of_the_calls(replicas: tuple[Replica, Replica]) -> None:
    async with two_replicas() as (dense, _), opened_gateway(resolved_to_all(replicas), dense) as searches:
        replicas[0].fault = "500"
        await searches.count_degraded(50)
        replicas[0].fault = None
        returned, before = time.monotonic(), replicas[0].searches
        while replicas[0].searches < before + 20:
            assert await searches.count_degraded(20) == 0
            assert time.monotonic() - returned < 5.0


async def test_a_new_replica_is_found_and_a_removed_one_gets_no_calls(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.backends.wire.RESOLVE_S", 0.1)
    named = [replicas[0]]
    async with two_replicas() as (dense, _), opened_gateway(resolved_to_all(named), dense) as searches:
        assert await searches.count_degraded(20) == 0
        assert replicas[1].searches == 0
        named[:] = [replicas[1]]
        await asyncio.sleep(0.5)
        before = replicas[0].searches
        assert await searches.count_degraded(20) == 0
        assert (replicas[0].searches, replicas[1].searches) == (before, 20)


async def test_an_old_connection_ends_so_that_load_reaches_other_replicas(
    replicas: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.chassis.calls.sockets.MAX_AGE_S", (0.2, 0.3))
    async with (
        balanced(replicas) as balancer,
        two_replicas() as (dense, _),
        opened_gateway(SocketEndpoints(address(f"http://127.0.0.1:{balancer.port}")), dense) as searches,
    ):
        for _ in range(24):  # at most four a connection
            assert await searches.ask()
            await asyncio.sleep(0.1)
    assert sum(replica.connections for replica in replicas) >= 4
    assert all(replica.searches for replica in replicas)
