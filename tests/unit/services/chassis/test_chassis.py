"""The promises of the chassis, on a small app over an ASGI transport."""

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import uvicorn
from fastapi import FastAPI
from starlette.types import Message

from services.chassis.app import create_app, router
from services.chassis.deadlines import current_deadline
from services.chassis.errors import BadInput, NotFound
from services.chassis.instruments import Instruments
from services.chassis.requests.handling import handled
from services.chassis.requests.rendering import render
from services.chassis.requests.telemetry import WATCHES, timed
from services.chassis.server.connections import ConnectionBounds
from services.chassis.server.serve import DrainingServer, open_and_serve
from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.health import Check
from services.contracts.query import SearchRequest
from tests.support.keyed_app import connected


def small_app(**settings: Any) -> FastAPI:
    @asynccontextmanager
    async def opened():
        routes = router()

        @routes.post("/echo")
        @handled(scope="search")
        async def echo(search: SearchRequest) -> SearchRequest:
            with timed("work"):
                return search

        @routes.get("/sleep")
        @handled(scope="search")
        async def sleep() -> int:
            await asyncio.sleep(0.3)
            return current_deadline().remaining_ms

        @routes.get("/missing")
        @handled(scope="search")
        async def missing() -> None:
            raise NotFound("There is no such thing; ask for another.")

        @routes.get("/broken")
        @handled(scope="search")
        async def broken() -> None:
            raise RuntimeError("secret inside")

        async def readiness() -> tuple[Check, ...]:
            return (Check(name="engine", ok=True),)

        yield (routes,), readiness

    return create_app("small", ServiceSettings(port=0, **settings), Instruments(), opened)


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with connected(small_app()) as client:
        yield client


CONDITION = {"field": "year", "op": "exists"}
BAD_BODIES = {
    "top of 0": (b'{"query": "a", "top": 0}', 422),
    "a query of spaces": (b'{"query": "  "}', 422),
    "NUL in the query": (b'{"query": "a\\u0000"}', 422),
    "a lone surrogate in the query": (b'{"query": "a\\ud800"}', 422),
    "a query that is too long": (json.dumps({"query": "a" * 16_385}).encode(), 422),
    "an unknown key": (b'{"query": "a", "topp": 3}', 422),
    "broken JSON": (b'{"query": ', 400),
    "a body above the limit": (b'{"query": "' + b"a" * 9_000_000 + b'"}', 413),
    "no object at all": (b"7", 422),
}


@pytest.mark.parametrize("name", BAD_BODIES)
async def test_bad_input_gets_a_clear_problem(client: httpx.AsyncClient, name: str) -> None:
    body, status = BAD_BODIES[name]
    answer = await client.post("/echo", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status
    problem = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["status"] == status
    assert problem["detail"]
    assert problem["request_id"] == answer.headers["x-request-id"]


async def test_every_answer_carries_its_timings_and_its_request_id(client: httpx.AsyncClient) -> None:
    answer = await client.post("/echo", json={"query": "a"}, headers={"x-request-id": "mine-1"})
    assert answer.headers["x-request-id"] == "mine-1"
    assert {part.split(";")[0] for part in answer.headers["server-timing"].split(", ")} == {"wait", "work", "total"}


@pytest.mark.parametrize(
    ("request_of", "kind"),
    [
        ({"method": "GET", "url": "/missing"}, "not-found"),
        ({"method": "POST", "url": "/echo", "content": b'{"query": '}, "malformed"),
        ({"method": "POST", "url": "/echo", "content": b'{"query": "a", "query": "b"}'}, "bad-input"),
        ({"method": "GET", "url": "/sleep", "headers": {"x-deadline-ms": "20"}}, "deadline-exceeded"),
    ],
    ids=["in a route", "while parsing a body", "in a parsed body", "in a middleware"],
)
async def test_a_foreseen_problem_keeps_its_kind_and_leaves_no_traceback(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture, request_of: dict[str, Any], kind: str
) -> None:
    answer = await client.request(**{"headers": {"content-type": "application/json"}, **request_of})
    assert answer.json()["type"] == f"urn:problem:{kind}"
    assert [record.message for record in caplog.records if record.exc_info or record.levelname == "ERROR"] == []


async def test_an_unknown_route_or_method_says_what_there_is(client: httpx.AsyncClient) -> None:
    unknown = (await client.get("/nowhere")).json()["detail"]
    assert unknown == "There is no such route here; GET /openapi.json lists all of them."
    wrong = (await client.get("/echo")).json()["detail"]
    assert wrong == "This route does not take that method; GET /openapi.json lists those that it takes."


async def test_an_unknown_field_is_named_even_when_it_is_called_body(client: httpx.AsyncClient) -> None:
    (fault,) = (await client.post("/echo", json={"query": "a", "body": 1})).json()["errors"]
    assert fault["field"] == "body"
    (fault,) = (await client.post("/echo", json={"query": "a", "filter": {"all": [CONDITION], "body": 1}})).json()[
        "errors"
    ]
    assert fault["field"] == "filter.body"


async def test_a_passed_deadline_is_a_504_in_time(client: httpx.AsyncClient) -> None:
    started = asyncio.get_running_loop().time()
    answer = await client.get("/sleep", headers={"x-deadline-ms": "50"})
    assert answer.status_code == 504
    assert asyncio.get_running_loop().time() - started < 0.25


async def test_the_deadline_shrinks_by_what_was_spent(client: httpx.AsyncClient) -> None:
    assert (await client.get("/sleep", headers={"x-deadline-ms": "5000"})).json() <= 4_700


@pytest.mark.parametrize("header", ["0", "1.5", "120001", ""])
async def test_a_malformed_deadline_is_a_400(client: httpx.AsyncClient, header: str) -> None:
    assert (await client.get("/sleep", headers={"x-deadline-ms": header})).status_code == 400


async def test_a_draining_process_is_alive_but_not_ready() -> None:
    app = small_app()
    async with connected(app) as client:
        assert (await client.get("/readyz")).json()["status"] == "ready"
        app.state.lifecycle.draining = True
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200


async def test_metrics_count_by_route_and_status(client: httpx.AsyncClient) -> None:
    await client.post("/echo", json={"query": "a"})
    text = (await client.get("/metrics")).text
    assert 'http_requests_total{method="POST",route="/echo",status="200"} 1.0' in text
    assert 'stage_seconds_count{stage="work"} 1.0' in text


async def test_a_disconnect_cancels_the_work() -> None:
    app = small_app()
    async with app.router.lifespan_context(app):
        sent: list[Message] = []
        leaving: list[Any] = []
        scope = {
            "type": "http", "method": "GET", "path": "/sleep", "raw_path": b"/sleep", "query_string": b"",
            "headers": [], "scheme": "http", "server": ("small", 80), "root_path": "", "http_version": "1.1",
            WATCHES: leaving.append,
        }  # fmt: skip

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            sent.append(message)

        call = asyncio.create_task(app(scope, receive, send))
        await asyncio.sleep(0.05)
        leaving[0]()
        await asyncio.wait_for(call, 0.1)
        assert sent[0]["status"] == 499


async def test_objects_made_at_the_start_are_excluded_from_garbage_collection() -> None:
    before, made = gc.get_freeze_count(), [[number] for number in range(10_000)]
    frozen = []

    class Looking(DrainingServer):
        async def serve(self, sockets: list[socket.socket] | None = None) -> None:
            frozen.append(gc.get_freeze_count())

    app = small_app()
    await open_and_serve(app, Looking(uvicorn.Config(app), app, 0.0, ConnectionBounds()))
    assert frozen[0] >= before + len(made)


def test_a_problem_that_quotes_a_lone_surrogate_is_rendered() -> None:
    answer = render(BadInput("There is no field 'a\ud800'."))
    assert (answer.status_code, json.loads(bytes(answer.body))["detail"]) == (422, "There is no field 'a?'.")
