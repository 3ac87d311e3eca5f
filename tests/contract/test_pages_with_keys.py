"""The pages of both services where callers need a key, and where they do not."""

import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from evaluator.service.app import build_app as evaluator
from evaluator.settings import EvaluatorSettings
from gateway.app import build_app as gateway
from gateway.settings import GatewaySettings
from services.chassis.access.form_tokens import COOKIE
from tests.support.keyed_app import log_in
from tests.support.keys import TOKEN, bearing, made_keys


def app_of(name: str, directory: Path, settings: dict[str, object]) -> FastAPI:
    if name == "gateway":
        return gateway(GatewaySettings.model_validate(settings))
    return evaluator(EvaluatorSettings.model_validate(settings | {"runs": directory / "runs"}))


@pytest.mark.parametrize("name", ["gateway", "evaluator"])
async def test_a_page_leads_to_the_login_only_where_callers_log_in(name: str, tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    for settings, secret in (({"STACK_TOKEN": TOKEN, "keys_file": keys.file}, keys.secrets["all"]), ({}, None)):
        app = app_of(name, tmp_path, dict(settings))
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://stack", headers=bearing(secret)) as client,
        ):
            page = await client.get("/")
            leads = 'login">Log in or out</a>' in page.text
            reached = (await client.get("/login")).status_code == 200
        assert page.status_code == 200
        assert leads == reached == (secret is not None)


async def test_a_form_of_the_evaluator_is_of_one_session_and_its_cookie_travels_over_tls_alone(tmp_path: Path) -> None:
    keys = made_keys(tmp_path)
    app = app_of("evaluator", tmp_path, {"STACK_TOKEN": TOKEN, "keys_file": keys.file})
    transport = httpx.ASGITransport(app)
    browsers = [httpx.AsyncClient(transport=transport, base_url="https://stack") for _ in range(2)]
    async with app.router.lifespan_context(app), browsers[0] as one, browsers[1] as other:
        for browser in browsers:
            await log_in(browser, keys.secrets["all"])
        page = await one.get("/new")
        (cookie,) = page.headers.get_list("set-cookie")
        token = re.findall(r'name="token" value="([^"]*)"', page.text)[0]
        session, planted = other.cookies[app.state.sessions.cookie], one.cookies[COOKIE]
        other.cookies.clear()
        sent = {"cookie": f"{app.state.sessions.cookie}={session}; {COOKIE}={planted}"}
        foreign = await other.post("/new", data={"token": token}, headers=sent)
        own = await one.post("/new", data={"token": token})
    assert cookie.startswith(f"{COOKIE}=")
    assert "; Secure" in cookie
    assert (foreign.status_code, "Refused form" in foreign.text) == (403, True)
    assert own.status_code == 422
