"""Checks over real sockets what the gateway sends to backends, and which of them it trusts."""

import asyncio
import json
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr

from gateway.app import SocketEndpoints, build_app
from gateway.backends.failures import BackendFailed
from gateway.backends.replica import Call, Peer, exchange
from gateway.settings import BackendAddress, GatewaySettings
from services.chassis.calls.sockets import SocketTransport
from services.chassis.settings.configuration import BadSettings, ConfigurationError, read_settings
from services.chassis.settings.service_settings import ServiceSettings
from services.chassis.settings.trust import caller_context
from tests.support.certificates import Certificates, Pair
from tests.support.chassis_app import small_app
from tests.support.opened_client import opened_client
from tests.support.recorded_requests import recording
from tests.support.served import on_a_port

TOKEN = "a-token-of-more-than-24-characters"
REFUSAL = {"type": "urn:problem:forbidden", "title": "Forbidden", "status": 403, "detail": "No.", "request_id": "a"}


def settings_for(url: str, **more: object) -> GatewaySettings:
    backends = {family: {"family": family, "url": url} for family in ("lexical", "dense", "reranker")}
    return GatewaySettings.model_validate({"backends": backends, **more})


async def asked(url: str, host: str, context: ssl.SSLContext | None) -> object:
    """What /headers answers where the name `host` leads to the address of `url`."""
    port = url.rpartition(":")[2]

    async def resolve(_: str, __: int) -> Sequence[str]:
        return ("127.0.0.1",)

    address = BackendAddress(family="lexical", url=f"https://{host}:{port}")
    endpoints = SocketEndpoints(address, resolve, context)
    (found,) = await endpoints.addresses()
    transport = endpoints.transport(found)
    try:
        return await exchange(
            Peer("lexical", address.url, 1.0), transport, Call("GET", "/headers", 5.0), json.loads, 5.0
        )
    finally:
        await transport.aclose()


@pytest.fixture
def made(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def with_certificate(pair: Pair, hosts: tuple[str, ...] = ()) -> ServiceSettings:
    return ServiceSettings(port=0, hosts=hosts, **pair.settings)


async def test_a_backend_is_asked_for_the_name_in_its_url_at_the_address_it_resolves_to(made: Certificates) -> None:
    settings = with_certificate(made.issue("lexical.test"), hosts=("lexical.test",))
    app = small_app(settings)
    async with app.router.lifespan_context(app), on_a_port(app, settings) as url:
        context = caller_context(made.ca_file)
        answer = await asked(url, "lexical.test", context)
        assert isinstance(answer, dict)
        assert answer["host"].startswith("lexical.test:")
        with pytest.raises(BackendFailed, match=r"hostname mismatch.*STACK_CA_FILE"):
            await asked(url, "dense.test", context)
        with pytest.raises(BackendFailed, match="unable to get local issuer"):
            await asked(url, "lexical.test", None)
        with pytest.raises(BackendFailed, match="ip address mismatch") as refused:
            await asked(url, "127.0.0.1", context)
        assert (refused.value.unsent, "127.0.0.1" in refused.value.detail) == (True, False)


async def test_the_first_token_goes_with_every_call_poll_and_probe(made: Certificates) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pair = made.issue()
    context.load_cert_chain(pair.cert, pair.key)
    async with recording(body={"collections": []}, context=context) as backend:
        settings = settings_for(backend.url, token=f"{TOKEN} {TOKEN}-before", ca_file=made.ca_file, refresh_s=0.05)
        app = build_app(settings)
        async with app.router.lifespan_context(app):
            await asyncio.sleep(0.3)
        polls = len(backend.requests)
        transport = SocketTransport("127.0.0.1", context=caller_context(made.ca_file))
        transport._given_up_at = time.monotonic()  # as after a cancelled request: the next one probes first
        peer = Peer("lexical", backend.url, 1.0, settings.sent_token)
        await exchange(peer, transport, Call("POST", "/v1/score", 5.0), bytes, 5.0)
        await transport.aclose()
    assert polls > 4
    assert {one.path for one in backend.requests} == {"/v1/collections", "/livez", "/v1/score"}
    assert backend.authorizations() == {f"Bearer {TOKEN}"}


async def test_without_a_token_nothing_is_sent() -> None:
    async with recording(body={"collections": []}) as backend:
        app = build_app(settings_for(backend.url))
        async with app.router.lifespan_context(app):
            pass
    assert backend.authorizations() == {None}


@pytest.mark.parametrize(("token", "said"), [(TOKEN, "it refuses the gateway's token"), (None, "it wants a token")])
async def test_a_backend_that_refuses_the_token_is_named_with_stack_token_and_not_asked_again(
    token: str | None, said: str
) -> None:
    async with recording(403, REFUSAL) as backend:
        app = build_app(settings_for(backend.url, token=token, auth="off", refresh_s=60.0))
        async with opened_client(app) as client:
            before = len(backend.requests)
            answer = await client.put("/v1/collections/demo", json={})
            assert len(backend.requests) - before <= 2  # one to each that stores
            ready = await client.get("/readyz")
    assert answer.status_code in (502, 503), answer.text
    told = f"{said} (HTTP 403): set the same STACK_TOKEN for the gateway and for it."
    assert told in answer.json()["detail"]
    assert told in ready.json()["checks"][0]["detail"]


@pytest.mark.parametrize(
    ("url", "trusted", "starts"),
    [
        ("http://lexical:8001", "", False),
        ("http://lexical:8001", '["lexical"]', True),
        ("https://lexical:8001", "", True),
        ("http://127.0.0.1:8001", "", True),
        ("http://10.0.0.7:8001", '["lexical"]', False),
    ],
)
def test_a_token_travels_unencrypted_to_loopback_and_trusted_hosts_alone(
    monkeypatch: pytest.MonkeyPatch, url: str, trusted: str, starts: bool
) -> None:
    monkeypatch.setenv("GATEWAY_BACKENDS", json.dumps({"lexical": {"family": "lexical", "url": url}}))
    monkeypatch.setenv("GATEWAY_TRUSTED_PLAIN", trusted)
    assert read_settings(GatewaySettings).backends["lexical"].url == url  # without a token
    monkeypatch.setenv("STACK_TOKEN", TOKEN)
    if starts:
        assert read_settings(GatewaySettings).sent_token == SecretStr(TOKEN)
        return
    with pytest.raises(BadSettings, match=r"^GATEWAY_BACKENDS: STACK_TOKEN ") as refused:
        read_settings(GatewaySettings)
    assert "GATEWAY_TRUSTED_PLAIN" in str(refused.value)
    assert TOKEN not in str(refused.value)


def test_an_authority_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="STACK_CA_FILE"):
        build_app(settings_for("https://lexical:8001", ca_file=tmp_path / "none.pem"))
