"""Who is served: the Host, the key, its scope and its share; the audit."""

import asyncio
import logging
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.chassis.app import router
from services.chassis.requests.handling import HandlingTable
from services.chassis.requests.rendering import BASIC
from services.chassis.server.connections import ConnectionBounds
from services.chassis.settings.configuration import ConfigurationError
from services.chassis.settings.service_settings import KeyedSettings
from tests.support.callers import callers
from tests.support.keyed_app import PAGE, connected, keyed_settings, search, small_app
from tests.support.keys import TOKEN, Keys, bearing, typed
from tests.support.served import bounded, port_of


async def test_without_a_key_the_answer_says_how_to_send_one(client: httpx.AsyncClient) -> None:
    answer = await search(client, None)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["type"] == "urn:problem:unauthenticated"
    assert "Authorization: Bearer" in answer.json()["detail"]


@pytest.mark.parametrize("header", ["Basic dXNlcjpwYXNz", "Bearer", "Bearer ", "rsk_1_2", "", "Bearer \xff"])
async def test_another_header_is_no_key(client: httpx.AsyncClient, header: str) -> None:
    answer = await client.post(
        "/v1/collections/c/search", json={}, headers={b"authorization": header.encode("latin-1")}
    )
    assert answer.status_code == 401


async def test_the_scheme_may_be_in_any_case(client: httpx.AsyncClient, keys: Keys) -> None:
    headers = {"authorization": f"bEARER {keys.secrets['search']}"}
    assert (await client.post("/v1/collections/c/search", json={}, headers=headers)).status_code == 200


async def test_a_wrong_key_is_told_in_no_answer(client: httpx.AsyncClient) -> None:
    answer = await search(client, "rsk_of-another-stack")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'
    assert "rsk_" not in answer.text


async def test_a_key_does_what_its_scope_says_and_no_more(client: httpx.AsyncClient, keys: Keys) -> None:
    assert (await search(client, keys.secrets["search"])).status_code == 200
    refused = await client.delete("/v1/collections/c", headers=bearing(keys.secrets["search"]))
    assert refused.status_code == 403
    assert "scope admin" in refused.json()["detail"]
    assert (await client.delete("/v1/collections/c", headers=bearing(keys.secrets["admin"]))).status_code == 200


async def test_a_key_of_some_collections_touches_no_other(client: httpx.AsyncClient, keys: Keys) -> None:
    secret = keys.add("shop", "search", collections=("shop-*",))
    await asyncio.sleep(0.6)  # until the file is read again
    assert (await search(client, secret, "shop-1")).status_code == 200
    assert (await search(client, secret, "shop-1@2")).status_code == 200
    assert (await search(client, secret, "other")).status_code == 403
    assert (await client.get("/page", headers=bearing(secret))).status_code == 403


async def test_an_unknown_path_is_told_to_who_has_a_key_alone(client: httpx.AsyncClient, keys: Keys) -> None:
    assert (await client.get("/nowhere")).status_code == 401
    assert (await client.get("/openapi.json")).status_code == 401
    assert (await client.get("/nowhere", headers=bearing(keys.secrets["search"]))).status_code == 404


async def test_the_probes_are_open(client: httpx.AsyncClient) -> None:
    for path in ("/livez", "/readyz", "/metrics"):
        assert (await client.get(path, headers={"host": "balancer.example"})).status_code == 200


async def test_above_its_rate_a_key_is_told_when_to_come_again(keys: Keys) -> None:
    slow = keys.add("slow", "search", per_second=0.5)
    async with connected(small_app(keyed_settings(keys))) as client:
        first, second = await search(client, slow), await search(client, slow)
        assert (first.status_code, second.status_code) == (200, 429)
        assert second.headers["retry-after"] == "2"
        assert (await search(client, keys.secrets["search"])).status_code == 200


async def test_above_its_requests_in_flight_a_key_is_refused_until_one_ends(keys: Keys) -> None:
    one, go_on = keys.add("one", "search", at_once=1), asyncio.Event()
    async with connected(small_app(keyed_settings(keys), go_on)) as client:
        first = asyncio.create_task(search(client, one))
        await asyncio.sleep(0.05)
        assert (await search(client, one)).status_code == 429
        go_on.set()
        assert (await first).status_code == 200
        assert (await search(client, one)).status_code == 200


@pytest.mark.parametrize(
    "host", ["localhost:8000", "127.0.0.1:8000", "[::1]:8000", "gateway", "10.0.0.7", "search.example"]
)
async def test_our_own_names_are_answered(host: str) -> None:
    async with connected(small_app(keyed_settings(hosts=("search.example",)))) as client:
        assert (await client.post("/v1/collections/c/search", json={}, headers={"host": host})).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "a b", "localhost:8000@evil.example", "["])
async def test_a_page_whose_domain_was_pointed_here_is_answered_nothing(host: str) -> None:
    async with connected(small_app(keyed_settings())) as client:
        answer = await client.post("/v1/collections/c/search", json={}, headers={"host": host})
        assert answer.status_code == 421


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_what_any_page_can_send_changes_nothing(media: str | None) -> None:
    headers = {} if media is None else {"content-type": media}
    async with connected(small_app(keyed_settings())) as client:
        assert (await client.post("/v1/collections/c/search", headers=headers)).status_code == 415


async def test_each_administrative_call_leaves_one_line(
    client: httpx.AsyncClient, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="audit"):
        await client.delete("/v1/collections/c", headers=bearing(keys.secrets["admin"]))
        await client.delete("/v1/collections/c", headers=bearing(keys.secrets["search"]))
        await client.delete("/v1/collections/c")
        await search(client, keys.secrets["search"])
    told = [vars(record) for record in caplog.records if record.name == "audit"]
    assert [(one["key"], one["collection"], one["outcome"]) for one in told] == [
        (keys.id_of("admin"), "c", 200),
        (keys.id_of("search"), "c", 403),
    ]
    assert told[0]["route"] == PAGE


async def test_an_audit_line_holds_no_path_that_a_caller_chose(
    client: httpx.AsyncClient, keys: Keys, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = "Forged%20outcome=200"
    with caplog.at_level(logging.INFO, logger="audit"):
        await client.delete(f"/v1/collections/{chosen}", headers=bearing(keys.secrets["search"]))
        refused = await client.request(
            "DELETE", "/v1/collections/c", headers=bearing(keys.secrets["admin"]), content="x"
        )
    told = [vars(record) for record in caplog.records if record.name == "audit"]
    assert [(one["route"], one["collection"]) for one in told] == [(PAGE, None), (PAGE, "c")]
    assert told[1]["outcome"] == refused.status_code == 415


async def test_a_stranger_is_not_read(keys: Keys) -> None:
    """The refusal does not wait for a body that never comes."""

    async def body() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(60)

    async with connected(small_app(keyed_settings(keys))) as client:
        async with asyncio.timeout(2):
            answer = await client.post("/v1/collections/c/search", content=body())
        assert answer.status_code == 401


async def test_a_browser_asks_its_user_for_a_key_on_pages_alone(client: httpx.AsyncClient, keys: Keys) -> None:
    refused = [await client.get("/page"), await client.get("/page", headers=typed("wrong")), await client.post("/form")]
    assert [(one.status_code, one.headers["www-authenticate"]) for one in refused] == [(401, BASIC)] * 3
    right = typed(keys.secrets["search"], "whoever")
    assert (await client.get("/page", headers=right)).status_code == 200
    api = await client.post("/v1/collections/c/search", json={}, headers=right)
    assert (api.status_code, api.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("credentials", ["", "!", "YW5u", "YW5uOg==", "/zov"])  # "ann", "ann:", no UTF-8
async def test_credentials_without_a_password_are_no_key(client: httpx.AsyncClient, credentials: str) -> None:
    answer = await client.get("/page", headers={"authorization": f"Basic {credentials}"})
    assert (answer.status_code, "give any user name" in answer.json()["detail"]) == (401, True)


@pytest.mark.parametrize("secret", [TOKEN, "expired", "revoked"])
async def test_neither_our_own_token_nor_an_inactive_key_can_be_typed(
    client: httpx.AsyncClient, keys: Keys, secret: str
) -> None:
    assert (await client.get("/page", headers=typed(keys.secrets.get(secret, secret)))).status_code == 401


async def test_a_typed_key_has_its_scopes_its_rate_and_its_audit(keys: Keys, caplog: pytest.LogCaptureFixture) -> None:
    slow = keys.add("slow", "search", per_second=0.5)
    async with connected(small_app(keyed_settings(keys))) as client:
        assert (await client.post("/form", headers=typed(slow), data={"a": "b"})).status_code == 403
        second = await client.get("/page", headers=typed(slow))
        assert (second.status_code, second.headers["retry-after"]) == (429, "2")
        with caplog.at_level(logging.INFO, logger="audit"):
            assert (await client.post("/form", headers=typed(keys.secrets["index"]), data={"a": "b"})).is_success
    (line,) = [vars(record) for record in caplog.records if record.name == "audit" and vars(record)["outcome"] == 200]
    assert line["key"] == keys.id_of("index")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 200),  # no browser
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"origin": "http://Small"}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "https://search.example"}, 200),  # a proxy has changed Host
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://small"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://small:81"}, 403),
    ],
)
@pytest.mark.parametrize("needs_keys", [True, False])
async def test_only_a_form_of_our_own_pages_is_taken(
    keys: Keys, sent: dict[str, str], status: int, needs_keys: bool
) -> None:
    async with connected(small_app(keyed_settings(keys if needs_keys else None))) as client:
        answer = await client.post("/form", data={"of": "a"}, headers=sent | typed(keys.secrets["all"]))
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["type"] == "urn:problem:foreign-form"


def test_a_browser_that_has_to_sign_in_is_counted_once(keys: Keys) -> None:
    app = small_app(keyed_settings(keys))
    with bounded(app, ConnectionBounds()) as server, callers(port_of(server), 1) as (caller,):
        assert caller.send(b"GET /page HTTP/1.1\r\nHost: small\r\n\r\n").answer()[0] == 401
    counted = app.state.instruments.denied.labels("unauthenticated")
    assert next(iter(counted.collect())).samples[0].value == 1


def test_a_process_does_not_start_without_its_file_of_keys_or_with_a_route_for_whomever(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no such file; .*keys new --name me --file"):
        small_app(KeyedSettings.model_validate({"port": 0, "keys_file": tmp_path / "keys.json"}))
    routes = router()
    routes.add_api_route("/forgotten", lambda: "")
    with pytest.raises(TypeError, match="/forgotten"):
        HandlingTable().add(routes.routes)
