"""Forms: the token of one browser and session holds with no other, and forms of other sites are refused."""

import re
from dataclasses import replace

import httpx
import pytest
from starlette.datastructures import Headers

from services.chassis.access.form_tokens import COOKIE, FormReader, FormTokens, comes_from_elsewhere
from tests.support.keyed_app import SESSION, connected, keyed_settings, log_in, small_app
from tests.support.keys import Keys

OWN = [
    {},
    {"sec-fetch-site": "same-origin"},
    {"sec-fetch-site": "none"},
    {"origin": "http://small:80", "host": "Small:80"},
    {"sec-fetch-site": "same-origin", "origin": "https://search.example", "host": "gateway:8000"},  # a proxy's Host
]
FOREIGN = [
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
    {"sec-fetch-site": "cross-site", "origin": "http://small", "host": "small"},
    {"origin": "null", "host": "small"},
    {"origin": "http://evil.example", "host": "small"},
    {"origin": "http://small:81", "host": "small:80"},
]


def test_a_token_holds_for_the_browser_and_the_session_that_it_was_made_for() -> None:
    tokens = FormTokens()
    reader = FormReader(tokens.nonce(FormReader(None, "", False)), "mine", False)
    token = tokens.token(str(reader.nonce), reader.session)
    assert tokens.nonce(reader) == reader.nonce
    assert tokens.holds(reader, token)
    for other in (
        replace(reader, session="another"),
        replace(reader, session=""),
        replace(reader, nonce="0" * 32),
        replace(reader, nonce="0"),
        replace(reader, nonce=None),
    ):
        assert not tokens.holds(other, token)
    assert not FormTokens().holds(reader, token)


@pytest.mark.parametrize("headers", OWN)
def test_a_form_of_our_own_pages_comes_from_here(headers: dict[str, str]) -> None:
    assert not comes_from_elsewhere(Headers(headers))


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_form_of_another_origin_comes_from_elsewhere(headers: dict[str, str]) -> None:
    assert comes_from_elsewhere(Headers(headers))


async def tokens_of_the_login(client: httpx.AsyncClient) -> list[str]:
    return re.findall(r'name="token" value="([^"]*)"', (await client.get("/login")).text)


async def test_the_form_of_one_browser_does_not_end_the_session_of_another(
    client: httpx.AsyncClient, keys: Keys
) -> None:
    await log_in(client, keys.secrets["search"])
    victim = client.cookies[SESSION]
    client.cookies.clear()
    await log_in(client, keys.secrets["index"])
    *_, token = await tokens_of_the_login(client)  # of its log-out
    cookie = f"{COOKIE}={client.cookies[COOKIE]}; {SESSION}={victim}"  # planted beside the session of the victim
    client.cookies.clear()
    answer = await client.post("/logout", data={"token": token}, headers={"cookie": cookie})
    assert answer.status_code == 403
    assert (await client.get("/page", headers={"cookie": f"{SESSION}={victim}"})).status_code == 200


async def test_who_is_logged_in_and_comes_from_another_site_logs_in_at_once(
    client: httpx.AsyncClient, keys: Keys
) -> None:
    """From a link of another site a browser comes without its session, and then sends the form with it."""
    await log_in(client, keys.secrets["search"])
    session = client.cookies[SESSION]
    client.cookies.clear()
    token, *_ = await tokens_of_the_login(client)
    sent = {"cookie": f"{SESSION}={session}; {COOKIE}={client.cookies[COOKIE]}"}
    answer = await client.post("/login", data={"token": token, "key": keys.secrets["index"]}, headers=sent)
    assert answer.status_code == 303


@pytest.mark.parametrize(("path", "needs_keys"), [("/login", True), ("/form", True), ("/form", False)])
async def test_a_form_of_another_site_is_refused_whatever_else_it_holds(
    keys: Keys, path: str, needs_keys: bool
) -> None:
    async with connected(small_app(keyed_settings(keys if needs_keys else None))) as client:
        sent = {"sec-fetch-site": "cross-site", "authorization": f"Bearer {keys.secrets['all']}"}
        answer = await client.post(path, data={"of": "a"}, headers=sent)
        assert answer.status_code == 403
        assert answer.json()["type"] == "urn:problem:foreign-form"


async def test_over_tls_the_cookie_of_forms_travels_over_tls_alone(keys: Keys) -> None:
    for scheme in ("https", "http"):
        async with connected(small_app(keyed_settings(keys)), scheme) as client:
            (cookie,) = (await client.get("/login")).headers.get_list("set-cookie")
            assert cookie.startswith(f"{COOKIE}=")
            assert ("Secure" in cookie) == (scheme == "https")
