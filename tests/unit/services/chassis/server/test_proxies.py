"""Whose word about a caller's address and scheme is believed."""

import httpx
import pytest
from fastapi import FastAPI, Request
from pydantic import ValidationError

from services.chassis.admission.lanes import client_of
from services.chassis.server.connections import ConnectionBounds
from services.chassis.settings.service_settings import KeyedSettings
from tests.support.keyed_app import small_app
from tests.support.served import bounded, on_a_port, port_of

FORWARDED = {"x-forwarded-for": "192.0.2.7", "x-forwarded-proto": "https"}


def telling_app(settings: KeyedSettings) -> FastAPI:
    app = small_app(settings)

    @app.get("/seen")
    async def seen(request: Request) -> dict[str, str]:
        assert request.client is not None
        return {"host": request.client.host, "scheme": request.url.scheme}

    return app


async def seen_with(settings: KeyedSettings) -> dict[str, str]:
    async with on_a_port(telling_app(settings), settings) as url, httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(f"{url}/seen", headers=FORWARDED)
        return dict(answer.raise_for_status().json())


async def test_without_a_named_proxy_nobody_is_believed_not_even_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")
    assert await seen_with(KeyedSettings(port=0)) == {"host": "127.0.0.1", "scheme": "http"}


@pytest.mark.parametrize("proxy", ["127.0.0.1", "127.0.0.0/8"])
async def test_a_named_proxy_tells_who_its_caller_is(proxy: str) -> None:
    settings = KeyedSettings.model_validate({"port": 0, "proxies": [proxy]})
    assert await seen_with(settings) == {"host": "192.0.2.7", "scheme": "https"}


async def test_callers_behind_a_named_proxy_are_several_to_early_refusals_too() -> None:
    settings, clients = KeyedSettings.model_validate({"port": 0, "proxies": ["127.0.0.1"]}), []
    with bounded(telling_app(settings), ConnectionBounds(), settings=settings) as server:
        server.server_state.early_refusal = lambda scope: clients.append(client_of(scope))
        async with httpx.AsyncClient(trust_env=False, base_url=f"http://127.0.0.1:{port_of(server)}") as client:
            for address in ("192.0.2.7", "192.0.2.8", "2001:db8:0:1::7"):
                (await client.get("/seen", headers={"x-forwarded-for": address})).raise_for_status()
    assert clients == ["192.0.2.7", "192.0.2.8", "2001:db8:0:1::"]


@pytest.mark.parametrize("proxy", ["*", "proxy.example", "10.0.0.1/24"])
def test_what_is_no_address_or_network_is_refused(proxy: str) -> None:
    with pytest.raises(ValidationError, match="proxies"):
        KeyedSettings.model_validate({"port": 0, "proxies": [proxy]})
