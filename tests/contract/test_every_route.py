"""What holds for every route of every service: HEAD, slashes at the end, and the names that a bound key sees."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Route

from services.contracts.problem import Problem
from services.keys.key import KEY_SCOPES
from tests.support.keys import TOKEN, Keys, bearing
from tests.support.opened_client import opened_client
from tests.support.real_stack import RealStack, real_stack
from tests.support.route_keys import SERVICES, routes_of, service_app

PROBES = ("/livez", "/readyz", "/metrics")
# Of each answer anew.
OF_ONE_ANSWER = {"server-timing", "x-request-id", "set-cookie"}


@asynccontextmanager
async def service(name: str, keys: Keys) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """Opens a service, and a client that has every right there."""
    app = service_app(name, keys.file.parent, keys)
    async with opened_client(app, raises=False, headers={"x-deadline-ms": "2000"}) as http:
        yield app, http


def secrets_of(keys: Keys) -> Iterator[str | None]:
    yield from (None, keys.secrets["expired"], keys.secrets["search"], keys.secrets["all"], TOKEN)


def filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "x", path)


def headers_of(answer: httpx.Response) -> dict[str, str]:
    """Returns what two answers have in common: a list of collections has the time, of which the length varies."""
    of_one = OF_ONE_ANSWER | ({"content-length"} if answer.url.path.rstrip("/") == "/v1/collections" else set())
    return {name: value for name, value in answer.headers.items() if name not in of_one}


@pytest.mark.parametrize("name", SERVICES)
async def test_head_is_answered_as_get_is_without_a_body(name: str, keys: Keys) -> None:
    async with service(name, keys) as (app, http):
        paths = [filled(path) for method, path, _ in routes_of(app) if method == "GET"]
        assert set(PROBES) < set(paths)
        for path in (*paths, "/no/such/route"):
            for secret in secrets_of(keys):
                get = await http.get(path, headers=bearing(secret))
                head = await http.head(path, headers=bearing(secret))
                if path == "/metrics":  # the numbers are of the moment
                    assert head.status_code == 200
                    continue
                assert (path, head.status_code, headers_of(head)) == (path, get.status_code, headers_of(get))
                assert not head.content


@pytest.mark.parametrize("name", SERVICES)
async def test_slashes_at_the_end_open_nothing(name: str, keys: Keys) -> None:
    async with service(name, keys) as (app, http):
        for (method, path, scope), end in product(routes_of(app), ("/", "//", "/%2F", "%2F%2F", "/./", "/%2e/")):
            for secret in (None, keys.secrets["search"]):
                answer = await http.request(
                    method, filled(path) + end, headers=bearing(secret) | {"content-type": "application/json"}
                )
                assert "location" not in answer.headers
                if scope != "open" and secret is None:
                    assert answer.status_code == 401, (method, path)
                elif scope not in ("open", "search"):
                    assert answer.status_code in (401, 403, 404, 405), (method, path)


PLANTED = "planted"  # in the name of every collection that is not of the bound key
BODIES: tuple[dict[str, object], ...] = (
    {},
    {"new_generation": True, "build": "mine"},
    {"generation": "shop-a@7"},
    {"query": "word"},
    {"query": "word", "pipeline": "nope"},
    {"ids": ["d00"]},
    {"documents": [{"id": "d1", "text": "word"}]},
)


@pytest.fixture
async def planted(tmp_path: Path, keys: Keys, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RealStack]:
    """A stack as full as it may be, with one collection of the key `bound`, and others."""
    monkeypatch.setenv("LEXICAL_MOST_GENERATIONS", "3")
    keys.add("bound", *KEY_SCOPES, collections=("shop-*",))
    secured: dict[str, Any] = {"keys_file": keys.file, "STACK_TOKEN": TOKEN, "trusted_plain": ["lexical", "dense"]}
    async with real_stack(tmp_path, **secured) as stack:
        stack.client.headers.update(bearing(keys.secrets["all"]))
        for name in (f"{PLANTED}-live", f"{PLANTED}-built", "shop-a"):
            assert (await stack.client.put(f"/v1/collections/{name}", json={"build": name})).is_success
        live = f"/v1/collections/{PLANTED}-live"
        await stack.client.post(f"{live}/documents", json={"documents": [{"id": "d", "text": "t"}], "build": live[16:]})
        assert (await stack.client.post(f"{live}/publish", json={"build": live[16:]})).is_success
        assert PLANTED in (await stack.client.get("/v1/collections")).text
        stack.client.headers.update(bearing(keys.secrets["bound"]))
        yield stack


async def test_a_bound_key_sees_no_name_of_another_collection_and_no_other_key(planted: RealStack, keys: Keys) -> None:
    ours = service_app("gateway", keys.file.parent, keys)
    async with ours.router.lifespan_context(ours):
        routes = [(method, path) for method, path, _ in routes_of(ours)]
    statuses: set[int] = set()
    for name in ("shop-a", "shop-b", "nope", f"{PLANTED}-live"):
        for method, path in routes:
            for body in BODIES:
                answer = await planted.client.request(
                    method, re.sub(r"\{(collection|generation)\}", name, path).replace("{name}", "nope"), json=body
                )
                statuses.add(answer.status_code)
                for unseen in (PLANTED, keys.id_of("all")):
                    assert unseen not in answer.text, (method, path, name)
                    assert unseen not in str(answer.headers)
    assert {200, 403, 404, 409} <= statuses
    full = await planted.client.put("/v1/collections/shop-c", json={})
    assert (full.status_code, "as many as there may be" in full.text) == (409, True)


async def test_what_a_backend_answers_of_all_collections_is_not_passed_on(planted: RealStack) -> None:
    fault = Problem(type="urn:problem:internal", title="x", status=500, detail=f"{PLANTED}-live broke", request_id="r")

    def broken(_: httpx.Request) -> httpx.Response:
        return httpx.Response(500, content=fault.model_dump_json())

    planted.ways["dense"].inner = httpx.MockTransport(broken)
    for method, path in (("GET", "/v1/collections/shop-a"), ("PUT", "/v1/collections/shop-a"), ("GET", "/readyz")):
        answer = await planted.client.request(method, path, json={} if method == "PUT" else None)
        assert PLANTED not in answer.text
        if path != "/readyz":
            assert "HTTP 500" in answer.text


@pytest.mark.parametrize("name", [one for one in SERVICES if one != "gateway"])
async def test_a_bound_key_opens_nothing_that_names_no_collection(name: str, keys: Keys) -> None:
    bound = keys.add("bound", *KEY_SCOPES, collections=("shop-*",))
    async with service(name, keys) as (app, http):
        for method, path, scope in routes_of(app):
            if scope != "open":
                answer = await http.request(
                    method, filled(path), headers=bearing(bound) | {"content-type": "application/json"}
                )
                assert answer.status_code in (401, 403), (method, path)


@pytest.mark.parametrize("name", SERVICES)
async def test_where_callers_need_a_key_readiness_has_states_alone(name: str, keys: Keys) -> None:
    async with service(name, keys) as (_, http):
        for secret in (None, keys.secrets["all"], TOKEN):
            answer = await http.get("/readyz", headers=bearing(secret))
            assert answer.json()["checks"]
            assert all(set(check) <= {"name", "ok", "detail"} for check in answer.json()["checks"])
            assert not any(check.get("detail") for check in answer.json()["checks"])


@pytest.mark.parametrize("name", ["gateway", "evaluator"])
async def test_a_browser_that_is_refused_gets_a_page(name: str, keys: Keys) -> None:
    bound = keys.add("bound", *KEY_SCOPES, collections=("shop-*",))
    typed = {"content-type": "application/x-www-form-urlencoded"}
    kinds: tuple[tuple[dict[str, str], str | bytes], ...] = (
        ({}, ""),
        (bearing(keys.secrets["expired"]), ""),
        (bearing(keys.secrets["search"]), ""),
        (bearing(bound), ""),
        (bearing(keys.secrets["all"]), "a=0"),
        (bearing(keys.secrets["all"]), b"x" * 40_000_000),
        (bearing(keys.secrets["all"]) | {"sec-fetch-site": "cross-site"}, ""),
        (bearing(keys.secrets["all"]) | {"content-encoding": "gzip"}, "a=0"),
        (bearing(keys.secrets["all"]) | {"host": "elsewhere.example"}, ""),
        (bearing(keys.secrets["all"]) | {"x-deadline-ms": "never"}, ""),
    )
    refused = set()
    async with service(name, keys) as (app, http):
        documented = {route.path_format for route in app.routes if isinstance(route, Route) and route.include_in_schema}
        pages = [(method, path) for method, path, _ in routes_of(app) if path not in documented]
        pages = [one for one in pages if one[1] not in ("/openapi.json", "/page/{name}", "/pages/{name}")]
        assert ("GET", "/") in pages
        for method, path in (*pages, ("GET", "/no/such/page"), ("DELETE", "/")):
            for headers, body in kinds:
                sent = {"accept": "text/html,*/*;q=0.8", **typed, **headers}
                answer = await http.request(method, filled(path), headers=sent, content=body)
                if answer.status_code >= 400:
                    refused.add(answer.status_code)
                    assert answer.headers["content-type"].startswith("text/html"), (method, path, answer.text)
                    assert "content-security-policy" in answer.headers
        asked = await http.get("/no/such/page", headers=bearing(keys.secrets["all"]))
        assert asked.headers["content-type"] == "application/problem+json"
    assert refused >= {400, 401, 403, 404, 405, 413, 415, 421}
