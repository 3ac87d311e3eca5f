"""Changes on a storing service's own wire that name a build, or a state, which the generation does not have."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.real_stack import numbered, real_stack

AT = "/v1/collections/c@1"
MINE, ANOTHER = "0123456789abcdef", "fedcba9876543210"


@pytest.fixture(params=["lexical", "dense"])
async def service(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """It holds `c@1` of a build, with two documents."""
    async with real_stack(tmp_path) as stack:
        client = stack.lexical if request.param == "lexical" else stack.dense
        assert (await client.put(AT, params={"build": MINE}, json={})).status_code == 200
        batch = {"documents": numbered(2)}
        assert (await client.post(f"{AT}/documents", params={"build": MINE}, json=batch)).status_code == 200
        yield client


async def declared_and_held(service: httpx.AsyncClient) -> dict[str, object]:
    """Returns the generation's state without its bytes: the store merges segments by itself."""
    state: dict[str, object] = (await service.get(AT)).json()
    return {name: value for name, value in state.items() if name != "bytes"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/documents", {"documents": [{"id": "x", "text": "one more"}]}),
        ("POST", "/documents/delete", {"ids": ["d00"]}),
        ("POST", "/finish", {}),
        ("POST", "/publish", {}),
        ("DELETE", "", None),
    ],
)
async def test_a_change_for_another_build_is_refused_and_the_same_for_its_own_is_done(
    service: httpx.AsyncClient, method: str, path: str, body: dict[str, object] | None
) -> None:
    before = await declared_and_held(service)
    refused = await service.request(method, AT + path, params={"build": ANOTHER}, json=body)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:problem:build-conflict")
    assert await declared_and_held(service) == before
    assert (await service.request(method, AT + path, params={"build": MINE}, json=body)).is_success


async def test_what_is_published_is_not_removed_by_who_means_to_keep_it(service: httpx.AsyncClient) -> None:
    await service.post(f"{AT}/publish", json={})
    refused = await service.delete(AT, params={"keep_published": True})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:problem:conflict")
    assert (await service.get(AT)).json()["published"]
    assert (await service.delete(AT)).status_code == 204
