"""A request gets a slot of its lane once it has fully arrived, and if its caller still waits."""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI

from services.chassis.app import create_app, router
from services.chassis.errors import Overloaded
from services.chassis.instruments import Instruments
from services.chassis.probes import Readiness
from services.chassis.requests import body
from services.chassis.requests.handling import handled
from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.http_protocol import PAUSE_S
from services.chassis.server.serve import DrainingServer
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.health import Check
from tests.support.callers import Caller, callers, wait_for
from tests.support.opened_client import opened_client
from tests.support.served import bounded, port_of

PAGE = "https://shop.example"


class Work:
    """An app whose work and writes last until they are released. A page of one other origin may call it."""

    def __init__(self, **settings: Any) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.begins = asyncio.Semaphore(0)
        self.app: FastAPI = create_app(
            "small", ServiceSettings(port=0, **settings), Instruments(), self._opened, cors_origins=(PAGE,)
        )

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[tuple[Sequence[APIRouter], Readiness]]:
        routes = router()

        @routes.post("/v1/collections/{collection}/search")
        @handled(scope="search")
        async def work(collection: str) -> str:
            self.begun += 1
            self.begins.release()
            await self.go.wait()
            return collection

        @routes.post("/v1/collections/{collection}/documents")
        @handled("write", scope="search")
        async def write(collection: str) -> str:
            return await work(collection)

        @routes.post("/size")
        @handled(scope="search")
        async def size(text: str, items: list[str]) -> int:
            return len(items[0])

        @routes.get("/refused")
        @handled(scope="search")
        async def refused(pauses: bool) -> int:
            raise Overloaded("Not now.", pauses=pauses)

        @routes.get("/v1/collections")
        @handled("control", scope="search")
        async def look() -> int:
            return 1

        async def readiness() -> tuple[Check, ...]:
            return (Check(name="engine", ok=True),)

        yield (routes,), readiness


@contextmanager
def working(bounds: ConnectionBounds | None = None, **settings: int) -> Iterator[tuple[Work, DrainingServer]]:
    work = Work(**settings)
    with bounded(work.app, bounds or ConnectionBounds()) as server:
        try:
            yield work, server
        finally:
            work.go.set()


def posted(path: str, size: int, sent: bytes = b"", more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {size}\r\n{more}\r\n"
    return head.encode() + sent


SEARCH = posted("/v1/collections/c/search", 0)
SIZED = "/size?text=a"


def small(caller: Caller) -> int:
    return caller.send(posted(SIZED, 5, b'["a"]')).answer()[0]


@pytest.mark.parametrize("pauses", [True, False])
def test_a_connection_is_read_later_after_a_refusal_that_pauses_it(pauses: bool) -> None:
    asked = f"GET /refused?pauses={pauses} HTTP/1.1\r\nHost: a\r\n\r\n".encode()
    with working() as (_, server), callers(port_of(server), 2) as (caller, other):
        started = time.monotonic()
        assert caller.send(asked).answer()[0] == 429
        refused = time.monotonic()
        assert small(other) == 200
        if not pauses:
            assert caller.send(asked).answer()[0] == 429
        assert time.monotonic() - refused < PAUSE_S
        if pauses:
            assert caller.send(asked).answer()[0] == 429
            assert time.monotonic() - started >= PAUSE_S


def test_a_pause_holds_back_the_requests_that_came_with_the_refused_one() -> None:
    asked = b"GET /refused?pauses=True HTTP/1.1\r\nHost: a\r\n\r\n"
    with working() as (_, server), callers(port_of(server), 1) as (caller,):
        started = time.monotonic()
        answers = caller.send(asked * 2 + asked.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")).received()
        assert answers.count(b"HTTP/1.1 429 ") == 3
        assert time.monotonic() - started >= 1.8 * PAUSE_S


def test_uploads_of_a_byte_a_second_hold_no_slot() -> None:
    with working(max_in_flight=2, max_waiting=2) as (_, server), callers(port_of(server), 40) as slow:
        for caller in slow:
            caller.send(posted(SIZED, 100, b"["))
        wait_for(lambda: len(server.server_state.tasks) == 40, within_s=5.0)
        with callers(port_of(server), 1) as (living,):
            started = time.monotonic()
            assert small(living) == 200
            assert time.monotonic() - started < 1.0


def test_a_slow_body_is_refused_and_its_connection_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "GRACE_S", 0.3)
    with working() as (_, server), callers(port_of(server), 1) as (caller,):
        caller.send(posted(SIZED, 100))
        for _ in range(8):
            caller.send(b"[")
            time.sleep(0.1)
        head, _, problem = caller.received().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert json.loads(problem)["type"] == "urn:problem:request-timeout"


def test_a_body_on_a_slow_line_gets_the_time_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "GRACE_S", 0.3)
    sent = json.dumps(["a" * 100_000]).encode()
    with working() as (_, server), callers(port_of(server), 1) as (caller,):
        caller.send(posted(SIZED, len(sent)))
        for place in range(0, len(sent), 10_000):
            caller.send(sent[place : place + 10_000])
            time.sleep(0.1)
        assert caller.answer() == (200, b"100000")


def test_the_time_of_an_upload_counts_towards_the_deadline() -> None:
    with working() as (_, server), callers(port_of(server), 1) as (caller,):
        started = time.monotonic()
        caller.send(posted(SIZED, 100, b"[", "X-Deadline-Ms: 300\r\n"))
        assert caller.answer()[0] == 504
        assert time.monotonic() - started < 1.0


def test_callers_who_hang_up_in_the_queue_leave_it_at_once() -> None:
    with working(max_in_flight=1, max_waiting=5) as (work, server), callers(port_of(server), 1) as (first,):
        first.send(SEARCH)
        wait_for(lambda: work.begun == 1, within_s=5.0)
        with callers(port_of(server), 5) as queued:
            for caller in queued:
                caller.send(SEARCH)
            wait_for(lambda: len(server.server_state.tasks) == 6, within_s=5.0)
        wait_for(lambda: len(server.server_state.tasks) == 1, within_s=2.0)
        with callers(port_of(server), 5) as living:
            for caller in living:
                caller.send(SEARCH)
            wait_for(lambda: len(server.server_state.tasks) == 6, within_s=5.0)
            server.servers[0].get_loop().call_soon_threadsafe(work.go.set)
            assert [caller.answer()[0] for caller in (first, *living)] == [200] * 6
        assert work.begun == 6


def test_a_caller_who_hangs_up_with_several_requests_in_flight_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    with working() as (work, server):
        with callers(port_of(server), 1) as (caller,):
            caller.send(SEARCH * 2)
            wait_for(lambda: work.begun == 1, within_s=5.0)
        wait_for(lambda: not server.server_state.tasks, within_s=2.0)
    assert work.begun == 1
    assert not [record for record in caplog.records if record.exc_info]


def _works_on(server: DrainingServer, requests: int) -> bool:
    return len(server.server_state.tasks) == requests


@contextmanager
def overloaded(bounds: ConnectionBounds | None = None) -> Iterator[tuple[DrainingServer, Caller]]:
    """A server that refuses work before it is read, and who was refused: one request is in work, another one waits."""
    with working(bounds, max_in_flight=1, max_waiting=1) as (_, server), callers(port_of(server), 3) as asking:
        for place, caller in enumerate(asking[:2], start=1):
            caller.send(SEARCH)
            wait_for(partial(_works_on, server, place), within_s=5.0)
        assert asking[2].send(SEARCH).answer()[0] == 429
        yield server, asking[2]


def test_a_body_that_never_comes_after_its_early_refusal_does_not_keep_the_connection() -> None:
    with overloaded(ConnectionBounds(head_s=0.2)) as (_, late):
        assert late.send(posted("/v1/collections/c/search", 4)).answer()[0] == 429
        late.socket.settimeout(3.0)
        assert late.socket.recv(1) == b""


def test_a_page_of_another_origin_that_may_call_can_read_an_early_refusal() -> None:
    with overloaded() as (_, late):
        asked = [
            posted("/v1/collections/c/search", 0, more=f"Origin: {origin}\r\n")
            for origin in (PAGE, "https://a.example")
        ]
        last = b"GET /livez HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        allowed, other, _ = late.send(*asked, last).received().split(b"HTTP/1.1 ")[1:]
    assert allowed.startswith(b"429 ")
    assert other.startswith(b"429 ")
    assert f"access-control-allow-origin: {PAGE}\r\n".encode() in allowed
    assert b"retry-after" in allowed.partition(b"access-control-expose-headers: ")[2].partition(b"\r\n")[0]
    assert b"access-control" not in other


def test_an_overloaded_lane_does_not_refuse_that_a_browser_asks_whether_a_page_may_call() -> None:
    with overloaded() as (_, late):
        asked = f"OPTIONS / HTTP/1.1\r\nHost: a\r\nOrigin: {PAGE}\r\nAccess-Control-Request-Method: POST\r\n\r\n"
        assert late.send(asked.encode()).answer()[0] == 200


def test_an_early_refusal_arrives_whole_where_its_head_alone_fills_the_buffer() -> None:
    with overloaded() as (server, slow):
        loop, sent = server.servers[0].get_loop(), threading.Event()

        def fill() -> None:
            connections: set[Any] = server.server_state.connections
            (protocol,) = [one for one in connections if one.client == slow.socket.getsockname()]
            while not protocol.transport.get_write_buffer_size():
                protocol.transport.write(b"a" * 10_000)
            protocol.transport.set_write_buffer_limits(high=protocol.transport.get_write_buffer_size() + 50)
            protocol.data_received(SEARCH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            sent.set()

        loop.call_soon_threadsafe(fill)
        assert sent.wait(5.0)
        head, _, problem = slow.received().lstrip(b"a").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 ")
    assert json.loads(problem)["type"] == "urn:problem:overloaded"


def test_an_overloaded_lane_refuses_before_the_body_has_arrived_and_keeps_the_connection() -> None:
    with working(max_in_flight=1, max_waiting=1) as (work, server), callers(port_of(server), 4) as asking:
        first, second, third, late = asking
        for place, caller in enumerate((first, second), start=1):
            caller.send(SEARCH)
            wait_for(partial(_works_on, server, place), within_s=5.0)
        assert third.send(SEARCH).answer()[0] == 429
        assert late.send(posted("/v1/collections/c/search", 4)).answer()[0] == 429
        server.servers[0].get_loop().call_soon_threadsafe(work.go.set)
        assert [caller.answer()[0] for caller in (first, second)] == [200, 200]
        assert late.send(b"null" + SEARCH).answer()[0] == 200


def test_the_total_of_large_bodies_is_bounded_and_that_of_small_ones_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "MOST_TOTAL_BYTES", 1_000_000)
    large = json.dumps(["a" * 600_000]).encode()
    with working() as (_, server), callers(port_of(server), 3) as (held, other, little):
        held.send(posted(SIZED, len(large), large[:-1]))
        wait_for(lambda: len(server.server_state.tasks) == 1, within_s=5.0)
        time.sleep(0.2)
        status, problem = other.send(posted(SIZED, len(large), large)).answer()
        assert (status, json.loads(problem)["type"]) == (429, "urn:problem:overloaded")
        assert small(little) == 200
        assert held.send(large[-1:]).answer()[0] == 200
        assert other.send(posted(SIZED, len(large), large)).answer()[0] == 200


async def test_reading_collections_and_searching_do_not_wait_for_writes() -> None:
    work = Work(max_in_flight=2, max_waiting=40)
    async with opened_client(work.app) as client, asyncio.TaskGroup() as tasks:
        for _ in range(40):
            tasks.create_task(client.post("/v1/collections/c/documents", json={}))
        await work.begins.acquire()
        assert (await client.get("/v1/collections")).status_code == 200
        search = tasks.create_task(client.post("/v1/collections/c/search", json={}))
        await work.begins.acquire()
        work.go.set()
        assert (await search).status_code == 200
