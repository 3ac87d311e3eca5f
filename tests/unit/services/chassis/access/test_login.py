"""Logging in with a browser by a key: who may, what its cookies open, and how it ends."""

import asyncio
import logging
import re
import time

import httpx
import pytest
from fastapi import FastAPI

from services.chassis.server.connections import ConnectionBounds
from tests.support.callers import callers
from tests.support.keyed_app import SESSION, connected, keyed_settings, log_in, login_requests, search, small_app
from tests.support.keys import TOKEN, Keys
from tests.support.served import bounded, port_of


def denied(app: FastAPI, reason: str) -> float:
    return float(next(iter(app.state.instruments.denied.labels(reason).collect())).samples[0].value)


async def test_a_browser_logs_in_by_a_key_and_comes_back_to_its_page(client: httpx.AsyncClient, keys: Keys) -> None:
    sent = await client.get("/page?runs=a&b=c")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2Fpage%3Fruns%3Da%26b%3Dc")
    done = await log_in(client, keys.secrets["search"], sent.headers["location"])
    assert (done.status_code, done.headers["location"]) == (303, "/page?runs=a&b=c")
    cookie = done.headers["set-cookie"]
    assert all(flag in cookie for flag in ("HttpOnly", "SameSite=strict", f"{SESSION}="))
    assert "Secure" not in cookie
    assert keys.secrets["search"] not in cookie
    assert (await client.get("/page")).status_code == 200


async def test_over_tls_the_cookie_travels_over_tls_alone(keys: Keys) -> None:
    async with connected(small_app(keyed_settings(keys)), "https") as client:
        assert "Secure" in (await log_in(client, keys.secrets["search"])).headers["set-cookie"]


async def test_a_cookie_opens_pages_and_no_api(client: httpx.AsyncClient, keys: Keys) -> None:
    await log_in(client, keys.secrets["all"])
    assert (await search(client, None)).status_code == 401


async def test_a_revoked_key_ends_its_sessions(client: httpx.AsyncClient, keys: Keys) -> None:
    await log_in(client, keys.secrets["search"])
    keys.revoke("search")
    await asyncio.sleep(0.6)  # until the file is read again
    assert (await client.get("/page")).status_code == 303


async def test_who_logs_out_is_logged_out(client: httpx.AsyncClient, keys: Keys) -> None:
    await log_in(client, keys.secrets["search"])
    stolen = dict(client.cookies)
    form = (await client.get("/login")).text
    token = re.findall(r'name="token" value="([^"]*)"', form)[-1]
    assert (await client.post("/logout", data={"token": token})).status_code == 303
    assert (await client.get("/page", cookies=stolen)).status_code == 303


@pytest.mark.parametrize("secret", ["", "wrong", TOKEN])
async def test_only_an_active_key_logs_in(client: httpx.AsyncClient, secret: str) -> None:
    answer = await log_in(client, secret)
    assert answer.status_code == 401
    assert SESSION not in answer.headers.get("set-cookie", "")


async def test_a_form_of_another_site_does_not_log_in(client: httpx.AsyncClient, keys: Keys) -> None:
    answer = await client.post("/login", data={"token": "x", "key": keys.secrets["search"]})
    assert answer.status_code == 403


@pytest.mark.parametrize(
    "target", ["https://evil.example", "//evil.example", "/\\evil.example", "javascript:alert(1)", "x"]
)
async def test_the_login_leads_nowhere_else(client: httpx.AsyncClient, keys: Keys, target: str) -> None:
    done = await log_in(client, keys.secrets["search"], str(httpx.URL("/login", params={"next": target})))
    assert done.headers["location"] == "/"


async def test_what_the_address_says_is_shown_and_not_run(client: httpx.AsyncClient) -> None:
    page = await client.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script>" not in page.text
    assert page.headers["content-security-policy"].startswith("default-src 'none'")


def test_each_wrong_key_typed_on_a_connection_is_answered_later_than_the_one_before(keys: Keys) -> None:
    app = small_app(keyed_settings(keys))
    with bounded(app, ConnectionBounds()) as server, callers(port_of(server), 1) as (caller,):
        begun, ends = time.monotonic(), []
        for asked in login_requests(caller, "rsk_wrong", keys.secrets["revoked"], TOKEN, ""):
            assert caller.send(asked).answer()[0] == 401
            ends.append(time.monotonic())
    # Times between two answers would depend on how late this thread read the first.
    assert [end - begun > least for end, least in zip(ends[1:], (0.09, 0.29, 0.69), strict=True)] == [True] * 3
    assert denied(app, "unauthenticated") == 4


async def test_a_wrong_key_that_is_typed_leaves_no_line(
    client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        assert (await log_in(client, "wrong")).status_code == 401
    assert not [record for record in caplog.records if getattr(record, "status", 0) == 401]


async def test_a_login_takes_one_request_out_of_the_rate_of_its_key(keys: Keys) -> None:
    slow = keys.add("slow", "search", per_second=0.5)
    app = small_app(keyed_settings(keys))
    async with connected(app) as client:
        first, second = await log_in(client, slow), await log_in(client, slow)
        assert (first.status_code, second.status_code) == (303, 429)
        assert second.headers["retry-after"] == "2"
        assert "asks too often" in second.text
        assert SESSION not in second.headers.get("set-cookie", "")
        assert (await search(client, slow)).status_code == 429
    assert denied(app, "over-share") == 2


async def test_a_second_login_of_a_browser_ends_its_first_session(client: httpx.AsyncClient, keys: Keys) -> None:
    await log_in(client, keys.secrets["search"])
    first = {"cookie": f"{SESSION}={client.cookies[SESSION]}"}
    await log_in(client, keys.secrets["expired"])  # refused: nothing ends
    assert (await client.get("/page", headers=first)).status_code == 200
    await log_in(client, keys.secrets["index"])
    client.cookies.clear()
    assert (await client.get("/page", headers=first)).status_code == 303
