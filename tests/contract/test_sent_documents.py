"""What a batch of documents must say of each, at the gateway and at the services, and which one a refusal names."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest

from tests.support.real_stack import RealStack, real_stack

KETTLE = {"id": "F001", "title": "Kettle", "text": "It boils water.", "metadata": {"year": 2020}}


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    """Its collection `c` holds the kettle."""
    async with real_stack(tmp_path) as opened:
        begun = await opened.client.put("/v1/collections/c", json={"build": "first", "metadata": {"year": "number"}})
        assert begun.status_code == 200
        assert (await sent(opened.client, KETTLE, build="first")).json()["complete"]
        assert (await opened.client.post("/v1/collections/c/publish", json={"build": "first"})).status_code == 200
        yield opened


async def sent(
    client: httpx.AsyncClient, *documents: Mapping[str, object], at: str = "c", build: str | None = None
) -> httpx.Response:
    body = {"documents": documents} | ({} if build is None else {"build": build})
    return await client.post(f"/v1/collections/{at}/documents", json=body)


async def stored(stack: RealStack, one: str) -> dict[str, object]:
    answer = await stack.client.post("/v1/collections/c/documents/get", json={"ids": [one]})
    (found,) = answer.json()["documents"]
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("fields", [{"metadata": {"year": 2030}}, {}, {"title": None, "text": None}])
async def test_a_document_without_title_and_text_is_refused_and_erases_nothing(
    stack: RealStack, fields: dict[str, object]
) -> None:
    empty = {"id": "F001", **fields}
    refused = [
        await sent(stack.client, {"id": "x", "text": "a"}, empty),
        await sent(stack.lexical, {"id": "x", "text": "a"}, empty, at="c@1"),
        await sent(stack.dense, {"id": "x", "text": "a"}, empty, at="c@1"),
    ]
    for answer in refused:
        assert answer.status_code == 422
        assert "documents.1" in answer.json()["detail"]
    assert await stored(stack, "F001") == KETTLE


@pytest.mark.parametrize("fields", [{"text": ""}, {"title": ""}, {"title": "", "text": ""}])
async def test_a_document_that_says_that_it_is_empty_is_taken_by_every_service(
    stack: RealStack, fields: dict[str, object]
) -> None:
    report = (await sent(stack.client, {"id": "F001", **fields})).json()
    assert report["complete"], report
    assert await stored(stack, "F001") == {"id": "F001", "title": "", "text": "", "metadata": {}}


async def test_null_in_metadata_is_no_value_and_refuses_nothing(stack: RealStack) -> None:
    report = (await sent(stack.client, {**KETTLE, "metadata": {"year": None, "kind": "kitchen"}})).json()
    assert report["complete"], report
    assert (await stored(stack, "F001"))["metadata"] == {"kind": "kitchen"}


@pytest.mark.parametrize("metadata", [{"kind": ["a", None]}, {"kind": {"a": 1}}, None])
async def test_a_wrong_value_is_named_by_its_document_and_field(stack: RealStack, metadata: object) -> None:
    answer = await sent(stack.client, KETTLE, {"id": "b", "text": "b", "metadata": metadata})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"].startswith("documents.1.metadata")


async def test_an_id_that_stands_twice_is_named_with_its_places(stack: RealStack) -> None:
    answer = await sent(stack.client, {"id": "a", "text": "a"}, KETTLE, KETTLE)
    assert answer.status_code == 422
    assert all(word in answer.json()["detail"] for word in ("documents.2", "documents.1", "F001"))
