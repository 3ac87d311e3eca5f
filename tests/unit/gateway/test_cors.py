"""Pages in a browser may call the gateway only if its settings name their origin."""

from contextlib import AbstractAsyncContextManager

import httpx
import pytest
from pydantic import ValidationError

from gateway.app import build_app
from gateway.settings import GatewaySettings
from tests.support.opened_client import opened_client

PAGE = "https://shop.example"
PREFLIGHT = {
    "origin": PAGE,
    "access-control-request-method": "POST",
    "access-control-request-headers": "content-type,x-deadline-ms",
}


def gateway(*origins: str) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return opened_client(build_app(GatewaySettings(cors_origins=origins)))


async def test_no_page_may_call_unless_configured() -> None:
    async with gateway() as client:
        asked = await client.options("/v1/pipelines", headers=PREFLIGHT)
        answer = await client.get("/v1/pipelines", headers={"origin": PAGE})
    assert asked.status_code == 405
    assert not [name for answered in (asked, answer) for name in answered.headers if name.startswith("access-control")]


async def test_pages_of_a_configured_origin_may_call_and_read_errors() -> None:
    async with gateway(PAGE) as client:
        asked = await client.options("/v1/collections/c/search", headers=PREFLIGHT)
        answer = await client.post(
            "/v1/collections/c/search", json={}, headers={"origin": PAGE, "x-deadline-ms": "soon"}
        )
    assert asked.status_code == 200
    assert asked.headers["access-control-allow-origin"] == PAGE
    assert answer.status_code == 400
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "x-request-id" in answer.headers["access-control-expose-headers"].lower()


async def test_pages_of_other_origins_may_not_call() -> None:
    async with gateway(PAGE) as client:
        answer = await client.get("/v1/pipelines", headers={"origin": "https://other.example"})
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("origin", ["shop.example", "https://shop.example/", "https://*.example", ""])
def test_a_malformed_origin_is_refused(origin: str) -> None:
    with pytest.raises(ValidationError):
        GatewaySettings(cors_origins=(origin,))
