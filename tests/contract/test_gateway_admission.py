"""What a search costs, and what tells the gateway to admit fewer."""

import asyncio
import re
import time

import httpx
import pytest

from gateway.search.admission import LEAST_COST, search_cost
from gateway.search.sources import PlannedRetrieve
from services.chassis.admission.limits import WAIT
from services.contracts.pipelines import Retrieve
from services.contracts.query import SearchRequest
from tests.support.backends import Stack, opened_stack


@pytest.mark.parametrize(
    ("depth", "approximate", "alone", "top", "cost"),
    [
        (1_000, False, True, 10, LEAST_COST),
        (1_000, False, False, 10, 2.5),
        (1_000, False, True, 1_000, 2.5),
        (100, False, True, 1_000, 2.5),  # one search gives the candidates and what is beneath them
        (100, True, True, 1_000, 2.75),  # two at once
    ],
)
def test_hits_count_that_are_read_and_no_others(
    depth: int, approximate: bool, alone: bool, top: int, cost: float
) -> None:
    planned = PlannedRetrieve(Retrieve(kind="retrieve", backend="dense", top=depth), approximate, alone)
    request = SearchRequest(query="fruit", top=top)
    assert search_cost([sum(planned.depths(request))], request) == cost


@pytest.mark.parametrize(("retrieves", "characters", "cost"), [(1, 5_000, 5.0), (16, 5, 8.0), (2, 1_000, 2.0)])
def test_each_retrieve_counts_and_the_length_of_what_it_asks(retrieves: int, characters: int, cost: float) -> None:
    assert search_cost([1] * retrieves, SearchRequest(query="x" * characters, top=1)) == cost


class Waited(httpx.AsyncBaseTransport):
    """Tells of every answer that its request waited for a slot."""

    def __init__(self, inner: httpx.AsyncBaseTransport, ms: int) -> None:
        self.inner = inner
        self.ms = ms

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self.inner.handle_async_request(request)
        answer.headers["server-timing"] = f"{WAIT};dur={self.ms}, total;dur={self.ms}"
        return answer


def search_limit(metrics: str) -> float:
    found = re.search(r'^admission_limit\{lane="search"\} (\S+)$', metrics, re.MULTILINE)
    assert found is not None
    return float(found[1])


@pytest.mark.parametrize(("waited_ms", "shrinks"), [(2_000, True), (10, False)])
async def test_a_search_that_waited_long_in_a_service_shrinks_the_limit(
    monkeypatch: pytest.MonkeyPatch, waited_ms: int, shrinks: bool
) -> None:
    async with opened_stack() as stack:
        wire = stack.wires["dense"]
        monkeypatch.setattr(wire, "_inner", Waited(wire._inner, waited_ms))
        before = search_limit((await stack.client.get("/metrics")).text)
        await two_searches(stack)
        after = search_limit((await stack.client.get("/metrics")).text)
        assert (after < before) is shrinks


async def two_searches(stack: Stack) -> None:
    """At once: one that is alone tells nothing of too many."""
    first, second = stack.search("fruit", "hybrid"), stack.search("fruit", "hybrid")
    async with asyncio.TaskGroup() as group:
        group.create_task(first)
        group.create_task(second)


async def test_a_refusal_by_a_service_shrinks_the_limit_at_once_whatever_time_is_left() -> None:
    async with opened_stack() as stack:
        before = search_limit((await stack.client.get("/metrics")).text)
        stack.wires["dense"].fault, stack.wires["dense"].faults_left = "overloaded", 2
        started = time.monotonic()
        await two_searches(stack)
        assert time.monotonic() - started < 0.9  # less than the second that the refusals say to wait
        assert search_limit((await stack.client.get("/metrics")).text) < before


async def test_a_reranker_learns_for_whom_it_is_asked_from_the_gateway_and_from_no_caller() -> None:
    async with opened_stack() as stack:
        stack.client.headers["x-client"] = "somebody else"
        await stack.search("fruit")
        assert stack.reranker.clients == ["127.0.0.1"]
