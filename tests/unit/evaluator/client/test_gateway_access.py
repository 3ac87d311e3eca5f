"""Checks what the evaluator sends to a gateway, over real sockets: its key, to whom, and what a refusal says."""

import asyncio
import ssl
import time
from contextlib import suppress
from pathlib import Path

import pytest

from evaluator.client.client import GatewayError, connected
from evaluator.client.gateway_access import read_access
from evaluator.commands.options import wait_until_ready
from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.export import exported_files, exported_traffic
from evaluator.load.sending.drives import run_generators
from evaluator.load.sending.load_loop import GeneratorTask
from evaluator.load.sending.traffic import LoadTarget
from evaluator.settings import EvaluatorSettings
from services.chassis.settings.configuration import BadSettings, read_settings
from tests.support.certificates import Certificates, Pair
from tests.support.recorded_requests import recording

KEY = "rs_a-key-of-the-gateway"
TOKEN = "a-token-of-more-than-24-characters"
READY = {"service": "gateway", "status": "ready", "checks": []}
REFUSED = {"type": "urn:problem:forbidden", "title": "Forbidden", "status": 403, "detail": "No.", "request_id": "a"}


@pytest.fixture(autouse=True)
def no_access(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("GATEWAY_API_KEY", "GATEWAY_API_KEY_FILE", "STACK_TOKEN", "STACK_TOKEN_FILE", "STACK_CA_FILE"):
        monkeypatch.delenv(name, raising=False)


def server_context(pair: Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def closed_task(url: str, *, opens_gateway: bool = True) -> GeneratorTask:
    return GeneratorTask("closed", url, {}, (b"{}",), (0,), (), 1, 0.2, 5.0, opens_gateway=opens_gateway)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({"GATEWAY_API_KEY": KEY, "STACK_TOKEN": TOKEN}, f"Bearer {KEY}"),
        ({"STACK_TOKEN": f"{TOKEN} {TOKEN}-before"}, f"Bearer {TOKEN}"),
        ({}, None),
    ],
    ids=["the key", "the first token", "neither"],
)
async def test_the_key_or_else_the_first_token_is_sent(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], sent: str | None
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    async with recording(body=READY) as gateway, connected(gateway.url) as client:
        await wait_until_ready(client, 5.0)
    assert gateway.authorizations("/readyz") == {sent}


def test_the_service_sends_its_key_and_not_the_token_which_has_every_scope() -> None:
    both = EvaluatorSettings.model_validate({"GATEWAY_API_KEY": KEY, "STACK_TOKEN": TOKEN})
    assert both.access.headers("https://gateway") == {"authorization": f"Bearer {KEY}"}
    assert TOKEN in both.accepted_tokens


async def test_a_generator_sends_the_key_to_the_gateway_alone_and_no_file_or_command_line_holds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GATEWAY_API_KEY", KEY)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    contents: list[bytes] = []

    def look() -> None:
        for file in (*tmp_path.rglob("*.pickle"), *Path("/proc").glob("[0-9]*/cmdline")):
            with suppress(OSError):  # it has gone
                contents.append(file.read_bytes())

    async def keep_looking() -> None:
        while True:
            await asyncio.to_thread(look)
            await asyncio.sleep(0.05)

    async with recording(body=READY) as gateway, recording() as other:
        looking = asyncio.create_task(keep_looking())
        await run_generators([closed_task(f"{gateway.url}/search")])
        await run_generators([closed_task(f"{other.url}/", opens_gateway=False)])
        looking.cancel()
    assert gateway.authorizations() == {f"Bearer {KEY}"}
    assert other.authorizations() == {None}
    assert any(b"evaluator.load.sending.generator" in content for content in contents)
    assert any(b"GeneratorTask" in content for content in contents)
    assert not any(KEY.encode() in content for content in contents)


async def test_the_gateway_is_checked_by_the_stacks_authority_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made, stranger = Certificates(tmp_path), Certificates(tmp_path, "stranger")
    monkeypatch.setenv("STACK_CA_FILE", str(made.ca_file))
    async with recording(body=READY, context=server_context(made.issue())) as gateway:
        async with connected(gateway.url) as client:
            assert (await client.health()).status == "ready"
        (result,) = await run_generators([closed_task(f"{gateway.url}/search")])
        assert {record.reply.status for record in result.records if record.reply} == {200}
    for pair, fault in (
        (made.issue("other.example"), "ip address mismatch"),
        (made.issue_expired(), "certificate has expired"),
        (stranger.issue(), "unable to get local issuer certificate"),
    ):
        async with recording(body=READY, context=server_context(pair)) as gateway, connected(gateway.url) as client:
            began = time.monotonic()
            with pytest.raises(GatewayError, match=rf"{fault}.*STACK_CA_FILE"):
                await wait_until_ready(client, 60.0)
            assert time.monotonic() - began < 10
            assert gateway.requests == []


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (404, {}, "no gateway"),
        (200, {"cluster_name": "elsewhere"}, "no gateway"),
        (200, {**READY, "service": "lexical"}, "the service lexical"),
        (401, {}, "GATEWAY_API_KEY"),
    ],
)
async def test_an_answer_that_waiting_does_not_change_is_not_waited_for(
    status: int, body: dict[str, object], fault: str
) -> None:
    async with recording(status=status, body=body) as other, connected(other.url) as client:
        with pytest.raises(EvaluationError, match=fault):
            await asyncio.wait_for(wait_until_ready(client, 60.0), 20.0)
        assert len(other.requests) == 1


async def test_a_proxy_whose_gateway_is_absent_is_waited_for() -> None:
    async with recording(status=503, body={}) as proxy, connected(proxy.url) as client:
        with pytest.raises(EvaluationError, match="HTTP 503"):
            await wait_until_ready(client, 1.0)


async def test_a_plain_address_of_a_gateway_that_speaks_tls_is_not_waited_for(tmp_path: Path) -> None:
    encrypted = recording(body=READY, context=server_context(Certificates(tmp_path).issue()))
    async with encrypted as gateway, connected(gateway.url.replace("https:", "http:")) as client:
        with pytest.raises(EvaluationError, match="write https://"):
            await asyncio.wait_for(wait_until_ready(client, 60.0), 20.0)


async def test_an_encrypted_address_of_a_gateway_without_tls_is_not_waited_for() -> None:
    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # as to every first line that is no request
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server, connected(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}") as client:
        with pytest.raises(EvaluationError, match="write http://"):
            await asyncio.wait_for(wait_until_ready(client, 60.0), 20.0)


@pytest.mark.parametrize(
    ("status", "read", "removed"),
    [
        (401, "the gateway refuses the key: set GATEWAY_API_KEY to one with scope search (HTTP 401: No.)",
              "the gateway refuses the key: set GATEWAY_API_KEY to one with scope index (HTTP 401: No.)"),
        # A scope is missing, or the collection is another key's.
        (403, *["the gateway forbids this to the key that was sent (HTTP 403: No.)"] * 2),
    ],
)  # fmt: skip
async def test_a_refused_key_is_answered_with_what_the_call_needs(
    monkeypatch: pytest.MonkeyPatch, status: int, read: str, removed: str
) -> None:
    monkeypatch.setenv("GATEWAY_API_KEY", KEY)
    messages = []
    async with recording(status, REFUSED | {"status": status}) as gateway, connected(gateway.url) as client:
        for call in (client.collection, client.remove):
            with pytest.raises(GatewayError) as refused:
                await call("demo")
            messages.append(str(refused.value))
    assert messages == [read, removed]


@pytest.mark.parametrize("name", ["GATEWAY_API_KEY", "STACK_TOKEN"])
async def test_a_key_is_not_sent_unencrypted_to_another_host(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    secret = TOKEN
    monkeypatch.setenv(name, secret)
    with pytest.raises(EvaluationError, match=f"^{name} .*https") as refused:
        async with connected("http://gateway:8000"):
            pass
    assert secret not in str(refused.value)
    monkeypatch.setenv("EVALUATOR_TRUSTED_PLAIN", '["gateway"]')
    async with connected("http://gateway:8000"):
        pass


def test_the_service_does_not_start_with_a_key_that_would_travel_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_URL", "http://gateway:8000")
    assert read_settings(EvaluatorSettings).access.key is None
    monkeypatch.setenv("GATEWAY_API_KEY", KEY)
    with pytest.raises(BadSettings, match=r"^GATEWAY_URL: GATEWAY_API_KEY .* EVALUATOR_TRUSTED_PLAIN"):
        read_settings(EvaluatorSettings)
    monkeypatch.setenv("EVALUATOR_TRUSTED_PLAIN", '["gateway"]')
    settings = read_settings(EvaluatorSettings)
    assert settings.access == read_access()
    assert KEY not in repr((settings, settings.access))
    monkeypatch.setenv("GATEWAY_URL", "http://a:hunter2@gateway:8000")
    with pytest.raises(BadSettings, match="user name") as refused:
        read_settings(EvaluatorSettings)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("key", ["two words", "grün"])
def test_a_key_that_no_header_carries_is_refused_and_not_told(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("GATEWAY_API_KEY", key)
    with pytest.raises(EvaluationError, match=r"^GATEWAY_API_KEY: ") as refused:
        read_access()
    assert key not in str(refused.value)


def test_exported_scripts_take_the_key_from_their_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_API_KEY", KEY)
    target = LoadTarget(
        "http://127.0.0.1/search", 10, 900, ("q",), {("bm25", "q"): b"{}"}, frozenset(), {}, caches=False
    )
    traffic = exported_traffic(target, "bm25", 2.0, LoadPlan(rates=(2.0,), seconds=1), seed=7)
    for name, text in exported_files(traffic).items():
        assert KEY not in text
        assert ("GATEWAY_API_KEY" in text) is name.endswith(".js")
