"""The dense service on a Qdrant that comes and goes, and how it starts without one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from services.dense.app import build_app
from services.dense.settings import DenseSettings
from tests.support.opened_client import opened_client
from tests.support.processes import free_port
from tests.support.qdrant_double import VERSION, qdrant_double

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect", "ignore:Api key is used with an insec")


@asynccontextmanager
async def serving(port: int, key: str | None = None, version: str = VERSION) -> AsyncIterator[FastAPI]:
    double = qdrant_double(key, version)
    server = uvicorn.Server(uvicorn.Config(double, host="127.0.0.1", port=port, log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield double
    finally:
        server.should_exit = True
        await running


def dense(port: int) -> AbstractAsyncContextManager[httpx.AsyncClient]:
    return opened_client(
        build_app(DenseSettings(store="qdrant", encoder="hashing", qdrant_url=f"http://127.0.0.1:{port}"))
    )


async def test_the_beam_of_a_request_reaches_the_server_and_is_256_without_one() -> None:
    port = free_port()
    async with serving(port) as double, dense(port) as client:
        await client.put("/v1/collections/notes@1", json={})
        for beam in ({}, {"beam": 40}):
            body = {"query": "chain", "top": 200, **beam}
            assert (await client.post("/v1/collections/notes@1/search", json=body)).status_code == 200
        assert [params.hnsw_ef for params in double.state.searches] == [256, 40]


async def ask(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/v1/collections/notes@1/search", json={"query": "chain"})


async def test_it_starts_without_its_server_and_recovers_by_itself() -> None:
    port = free_port()
    async with dense(port) as client:
        down = await ask(client)
        assert (down.status_code, down.json()["type"]) == (503, "urn:problem:unavailable")
        assert "QDRANT_URL" in down.json()["detail"]
        assert (await client.get("/readyz")).status_code == 503
        assert (await client.get("/livez")).status_code == 200
        async with serving(port):
            assert (await client.get("/readyz")).json()["checks"][0] == {
                "name": "store", "ok": True, "detail": f"qdrant {VERSION}; 1.20 and newer are supported",
            }  # fmt: skip
            assert (await ask(client)).status_code == 404
            await client.put("/v1/collections/notes@1", json={})
            documents = {"documents": [{"id": "a", "text": "oil the chain"}, {"id": "b", "text": "bleed the brake"}]}
            report = (await client.post("/v1/collections/notes@1/documents", json=documents)).json()
            assert (report["indexed"], report["encoded"]) == (2, 2)
            again = (await client.post("/v1/collections/notes@1/documents", json=documents)).json()
            assert (again["unchanged"], again["encoded"]) == (2, 0)
            await client.post("/v1/collections/notes@1/finish", json={})
            assert (await client.post("/v1/collections/notes@1/publish", json={})).json()["published"]
            assert [hit["id"] for hit in (await ask(client)).json()["hits"]] == ["a", "b"]
        assert (await ask(client)).status_code == 503
        assert (await client.get("/readyz")).status_code == 503


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.20.1", "Qdrant 1.20.1 answers; 1.20 and newer are supported."),
        ("1.16.3", "is too old"),
        (None, "QDRANT_URL"),
    ],
)
async def test_the_start_says_which_server_answers_or_why_none_can_be_used(
    caplog: pytest.LogCaptureFixture, version: str | None, said: str
) -> None:
    port = free_port()
    with caplog.at_level("INFO"):
        async with serving(port, version=version) if version else nullcontext(), dense(port):
            pass
    assert any(said in record.getMessage() for record in caplog.records if record.name.startswith("services."))
