"""A backend whose answers were faulty is used again once they are right, whatever the fault was."""

import asyncio
import time
from collections.abc import AsyncIterator

import httpx
import pytest

from gateway.app import SocketEndpoints
from tests.support import replicas
from tests.support.backends import opened_stack
from tests.support.replicas import (
    DEADLINE_S,
    Replica,
    ReplicaFault,
    SearchRecorder,
    address,
    opened_gateway,
    two_replicas,
)
from tests.support.times import repeated_when_late, timed

pytestmark = [pytest.mark.integration, pytest.mark.alone]

FAULTS: tuple[ReplicaFault, ...] = ("500", "hung", "503", "reset", "garbage", "latin-1")


@pytest.fixture
async def backends() -> AsyncIterator[tuple[Replica, Replica]]:
    """One lexical and one dense service."""
    async with two_replicas() as both:
        yield both


def lexical(backends: tuple[Replica, Replica]) -> SocketEndpoints:
    return SocketEndpoints(address(f"http://{backends[0].host}:{backends[0].port}"))


async def readiness_is(searches: SearchRecorder, status: int, within_s: float) -> None:
    started = time.monotonic()
    while (await searches.client.get("/readyz")).status_code != status:
        with timed():
            assert time.monotonic() - started < within_s
        await asyncio.sleep(0.05)


async def test_answers_with_a_field_of_the_next_release_are_full_quality(backends: tuple[Replica, Replica]) -> None:
    for backend in backends:
        backend.fault = "unknown field"
    async with opened_gateway(lexical(backends), backends[1]) as searches:
        assert await searches.count_degraded(30) == 0


@pytest.mark.parametrize("fault", FAULTS)
@repeated_when_late
async def test_a_broken_backend_is_flagged_in_time_and_back_within_five_seconds(fault: ReplicaFault) -> None:
    async with two_replicas() as backends, opened_gateway(lexical(backends), backends[1]) as searches:
        assert await searches.count_degraded(20) == 0
        backends[0].fault = fault
        await searches.count_degraded(20)
        assert set(searches.flagged[-8:]) == {frozenset({"bm25"})}
        with timed():
            assert searches.slowest_s < DEADLINE_S + 0.05
        backends[0].fault = None
        with timed():
            assert await searches.seconds_until_undegraded() < 5.0
        assert await searches.count_degraded(20) == 0


@pytest.mark.parametrize("fault", FAULTS[:3])
@repeated_when_late
async def test_the_gateways_view_of_its_backends_recovers_from_any_fault(fault: ReplicaFault) -> None:
    async with two_replicas() as backends, opened_gateway(lexical(backends), backends[1]) as searches:
        for backend in backends:
            backend.fault = fault
        await readiness_is(searches, 503, within_s=6.0)
        for backend in backends:
            backend.fault = None
        await readiness_is(searches, 200, within_s=5.0)
        metrics = (await searches.client.get("/metrics")).text
        assert "background_task_deaths_total{" not in metrics


async def test_a_slow_backend_is_waited_for_although_it_hung_before(backends: tuple[Replica, Replica]) -> None:
    async with opened_gateway(lexical(backends), backends[1]) as searches:
        backends[0].fault = "hung"
        await searches.count_degraded(8)
        backends[0].fault = None
        assert await searches.seconds_until_undegraded() < 5.0
        # Less than the 1.8 s that retrieval has, more than that after two failed liveness probes of 0.25 s.
        backends[0].work_s = 1.4
        assert await searches.count_degraded(16) == 0


async def test_a_backend_too_busy_to_answer_its_liveness_probe_at_once_is_not_set_aside(
    backends: tuple[Replica, Replica], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "DEADLINE_S", 0.8)
    async with opened_gateway(lexical(backends), backends[1]) as searches:
        backends[0].work_s = 1.0  # beyond the time of a search, as an event loop that is saturated
        assert await searches.count_degraded(8) == 8
        backends[0].work_s = 0.0
        assert await searches.ask()


async def test_an_error_that_no_transport_should_raise_is_a_failure_of_the_backend() -> None:
    async with opened_stack() as stack:

        async def broken(request: httpx.Request) -> httpx.Response:
            raise UnicodeEncodeError("utf-8", "\udcfc", 0, 1, "surrogates not allowed")

        stack.wires["dense"].handle_async_request = broken  # type: ignore[method-assign]
        answer = await stack.search("fruit trees")
        assert [(stage["stage"], stage["reason"]) for stage in answer.json()["degraded"]] == [("dense", "failed")]
