"""The secure mode of the tests: what is started has TLS and wants a key, and the tests' clients have both."""

import os
import ssl
from pathlib import Path

import httpx
import pytest

from tests.soak import wire
from tests.support import secured
from tests.support.processes import Process


def reranker() -> Process:
    return Process("services.reranker", {"RERANKER_SCORER": "overlap"})


async def test_a_process_speaks_tls_and_refuses_callers_without_the_token(tmp_path: Path) -> None:
    asked = {"query": "tea", "passages": ["tea"]}
    with secured.turned_on() as mode:
        one = reranker()
        try:
            one.start(tmp_path / "log")
            await one.ready()
            async with httpx.AsyncClient(base_url=one.url, verify=mode.trusts, trust_env=False) as nobody:
                assert (await nobody.post("/v1/score", json=asked)).status_code == 401
            async with one.client(timeout_s=10.0) as client:
                assert (await client.post("/v1/score", json=asked)).status_code == 200
            assert (await wire.ask(one.port, "POST", "/v1/score", asked)).status_code == 200
            with secured.turned_off(), pytest.raises(httpx.HTTPError):
                async with httpx.AsyncClient(trust_env=False) as plain:
                    await plain.get(f"http://127.0.0.1:{one.port}/livez")
        finally:
            one.kill()


def test_settings_that_a_process_is_given_win() -> None:
    with secured.turned_on():
        assert "STACK_TOKEN" in secured.variables("GATEWAY", {})
        assert "STACK_TOKEN" not in secured.variables("GATEWAY", {"STACK_TOKEN_FILE": "token"})
        assert "LEXICAL_KEYS_FILE" not in secured.variables("LEXICAL", {})


def test_what_was_in_the_environment_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STACK_CA_FILE", "before.pem")
    monkeypatch.delenv("GATEWAY_API_KEY", raising=False)
    with secured.turned_on() as mode:
        assert os.environ["GATEWAY_API_KEY"] == mode.key
        with secured.turned_off():
            assert "GATEWAY_API_KEY" not in os.environ
            assert secured.scheme() == "http"
        assert ssl.create_default_context(cafile=os.environ["STACK_CA_FILE"])
    assert (os.environ["STACK_CA_FILE"], "GATEWAY_API_KEY" in os.environ) == ("before.pem", False)


def test_another_choice_than_1_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(secured.VARIABLE, "yes")
    with pytest.raises(ValueError, match="TESTS_SECURE=yes"), secured.chosen_mode():
        pass


def test_the_key_is_put_after_the_line_of_a_request_and_nowhere_else() -> None:
    with secured.turned_on() as mode:
        secured.protect(1, "GATEWAY")
        line = f"authorization: Bearer {mode.key}\r\n".encode()
        assert secured.authorized(1, b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\n" + line + b"\r\n"
        assert secured.authorized(1, b"SSH-2.0-x\r\n") == b"SSH-2.0-x\r\n"
        assert secured.authorized(2, b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\n\r\n"
