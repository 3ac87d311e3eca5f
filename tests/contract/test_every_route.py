"""What holds for every route of every service: HEAD, a slash at the end, and the names that a bound key sees."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from tests.support.keys import TOKEN, Keys, bearing, made_keys
from tests.support.route_keys import routes_of, service_apps

SERVICES = ("gateway", "lexical", "dense", "reranker", "evaluator")
PROBES = ("/livez", "/readyz", "/metrics")
# Of each answer anew.
OF_ONE_ANSWER = {"server-timing", "x-request-id", "set-cookie"}


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    return made_keys(tmp_path)


@asynccontextmanager
async def service(name: str, keys: Keys) -> AsyncIterator[tuple[FastAPI, httpx.AsyncClient]]:
    """Opens a service, and a client that has every right there."""
    app = dict(service_apps(keys.file.parent, keys))[name]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url="http://stack", headers={"x-deadline-ms": "2000"})
    async with app.router.lifespan_context(app), client as http:
        yield app, http


def secrets_of(keys: Keys) -> Iterator[str | None]:
    yield from (None, keys.secrets["expired"], keys.secrets["search"], keys.secrets["all"], TOKEN)


def filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "x", path)


def headers_of(answer: httpx.Response) -> dict[str, str]:
    return {name: value for name, value in answer.headers.items() if name not in OF_ONE_ANSWER}


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
async def test_a_405_names_head_wherever_it_names_get_and_the_document_lists_neither_twice(
    name: str, keys: Keys, recwarn: pytest.WarningsRecorder
) -> None:
    async with service(name, keys) as (app, http):
        answer = await http.put("/livez", headers=bearing(TOKEN))
        assert answer.status_code == 405
        assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD"}
        documented = app.openapi()["paths"]
        operations = [one["operationId"] for of in documented.values() for one in of.values()]
        assert len(set(operations)) == len(operations)
        assert not any("head" in of for of in documented.values())
    assert not [one for one in recwarn if "Operation ID" in str(one.message)]


@pytest.mark.parametrize("name", SERVICES)
async def test_a_slash_at_the_end_changes_nothing_of_an_answer(name: str, keys: Keys) -> None:
    async with service(name, keys) as (app, http):
        for method, path, _ in routes_of(app):
            if path in ("/", "/metrics"):
                continue
            for secret in secrets_of(keys):
                headers = bearing(secret) | {"content-type": "application/json", "host": "localhost"}
                without = await http.request(method, filled(path), headers=headers)
                slashed = await http.request(method, filled(path) + "/", headers=headers)
                assert (path, slashed.status_code) == (path, without.status_code)
                assert headers_of(slashed) == headers_of(without)
        counted = (await http.get("/metrics/")).text
        assert 'route="/livez"' in counted
        assert 'route="/livez/"' not in counted


@pytest.mark.parametrize("end", ["//", "/%2F", "%2F%2F", "/./", "/%2e/"])
@pytest.mark.parametrize("name", SERVICES)
async def test_several_slashes_at_the_end_open_nothing(name: str, end: str, keys: Keys) -> None:
    async with service(name, keys) as (app, http):
        for method, path, scope in routes_of(app):
            for secret in (None, keys.secrets["search"]):
                answer = await http.request(
                    method, filled(path) + end, headers=bearing(secret) | {"content-type": "application/json"}
                )
                assert "location" not in answer.headers or answer.headers["location"].startswith("/login?")
                if scope != "open" and secret is None:
                    assert answer.status_code in (303, 401), (method, path)
                elif scope not in ("open", "search"):
                    assert answer.status_code in (401, 403, 404, 405), (method, path)
