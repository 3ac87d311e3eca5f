"""An Elasticsearch with a full write queue gives errors that tell a loader what to retry and when."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from services.lexical.app import build_app
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch import bulk
from tests.support.elasticsearch_stub import ElasticsearchStub, Reply
from tests.support.opened_client import opened_client

DOCUMENTS = [{"id": one, "text": "brake"} for one in "abc"]
DONE = {"index": {"status": 201}}
FULL = {"index": {"status": 429, "error": {"type": "es_rejected_execution_exception", "reason": "queue is full"}}}
BROKEN = {"index": {"status": 400, "error": {"type": "document_parsing_exception", "reason": "no"}}}


def answering(*items: object) -> ElasticsearchStub:
    """A server that answers the first bulk request as scripted and rejects all others for a full queue."""
    left = list(items)

    def reply(path: str) -> Reply:
        if path.endswith("/_mget"):
            return Reply({"docs": [{"_id": one, "found": False} for one in "abc"]})
        taken = [left.pop(0) for _ in list(left)]
        return Reply({"items": taken or [item for item in items if item == FULL]})

    return ElasticsearchStub(reply=reply)


@asynccontextmanager
async def service(stub: ElasticsearchStub) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        stub.listening() as url,
        opened_client(build_app(LexicalSettings(engine="elasticsearch", elasticsearch_url=url))) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk, "FIRST_PAUSE_S", 0.001)


async def test_a_batch_rejected_as_a_whole_is_a_429_with_retry_after() -> None:
    async with service(answering(FULL, FULL, FULL)) as client:
        answer = await client.post("/v1/collections/notes@1/documents", json={"documents": DOCUMENTS})
    assert (answer.status_code, answer.json()["type"]) == (429, "urn:problem:overloaded")
    assert int(answer.headers["retry-after"]) >= 1


async def test_only_rejected_items_are_reported_as_retryable() -> None:
    async with service(answering(DONE, FULL, BROKEN)) as client:
        answer = await client.post("/v1/collections/notes@1/documents", json={"documents": DOCUMENTS})
    report = answer.json()
    assert (answer.status_code, report["indexed"]) == (200, 1)
    assert {error["id"]: error["retryable"] for error in report["errors"]} == {"b": True, "c": False}
    assert "send it again" in next(error["reason"] for error in report["errors"] if error["id"] == "b")


async def test_a_deletion_rejected_for_one_document_is_a_429() -> None:
    done = {"delete": {"status": 200}}
    stub = answering(done, FULL)
    async with service(stub) as client:
        answer = await client.post("/v1/collections/notes@1/documents/delete", json={"ids": ["a", "b"]})
    assert (answer.status_code, answer.json()["type"]) == (429, "urn:problem:overloaded")
    assert "send them again" in answer.json()["detail"]
