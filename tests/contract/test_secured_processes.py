"""The secure mode of the tests: what is started has TLS and wants a key, and the tests' clients have both."""

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


def test_the_key_is_put_after_the_line_of_a_request_and_nowhere_else() -> None:
    with secured.turned_on() as mode:
        secured.protect(1, "GATEWAY")
        line = f"authorization: Bearer {mode.key}\r\n".encode()
        assert secured.authorized(1, b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\n" + line + b"\r\n"
        assert secured.authorized(1, b"SSH-2.0-x\r\n") == b"SSH-2.0-x\r\n"
        assert secured.authorized(2, b"GET / HTTP/1.1\r\n\r\n") == b"GET / HTTP/1.1\r\n\r\n"
