"""Which connections the clients use: past the proxies of the environment, and of one event loop and one process."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from pydantic import SecretStr

from evaluator.client.client import connected
from evaluator.client.gateway_access import GatewayAccess
from retrieval_client import AsyncClient, Client, RetrievalError
from tests.support.proxies import Recorder, recording

KEY = "rsk_0123456789ab_secret"
VARIABLES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture
async def gateway() -> AsyncIterator[Recorder]:
    async with recording() as recorder:
        yield recorder


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Recorder]:
    """A proxy that the environment names for everything."""
    async with recording() as recorder:
        for name in VARIABLES:
            monkeypatch.setenv(name, recorder.url)
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield recorder


async def by_client(url: str) -> None:
    with Client(url, key=KEY) as client:
        await asyncio.to_thread(client.collections)


async def by_async_client(url: str) -> None:
    async with AsyncClient(url, key=KEY) as client:
        await client.collections()


async def by_evaluator(url: str) -> None:
    async with connected(url, access=GatewayAccess(SecretStr(KEY))) as client:
        await client.collections()
        await client.loader.collections()


Call = Callable[[str], Awaitable[None]]
OURS: list[Call] = [by_client, by_async_client]


@pytest.mark.parametrize("call", [*OURS, by_evaluator])
async def test_no_proxy_of_the_environment_reads_a_key_that_travels_in_plain_text(
    call: Call, gateway: Recorder, proxy: Recorder
) -> None:
    await call(gateway.url)
    assert proxy.heads == []
    assert gateway.heads
    assert all(KEY.encode() in head for head in gateway.heads)


@pytest.mark.parametrize("call", OURS)
async def test_over_https_a_proxy_of_the_environment_makes_a_tunnel_and_reads_nothing(
    call: Call, proxy: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(RetrievalError) as lost:
        await call("https://search.example")
    assert lost.value.kind == "unreachable"
    assert [head.split()[:2] for head in proxy.heads] == [[b"CONNECT", b"search.example:443"]]
    assert KEY.encode() not in b"".join(proxy.heads)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(RetrievalError):
        await call("https://127.0.0.1:9")
    assert len(proxy.heads) == 1


async def test_in_a_second_event_loop_an_error_says_what_to_do(gateway: Recorder) -> None:
    client = AsyncClient(gateway.url, key=KEY)
    other = client.within(5_000)
    await client.collections()
    for one in (client, other):
        with pytest.raises(RetrievalError, match="event loop") as refused:
            await asyncio.to_thread(asyncio.run, call_of(one))
        assert (refused.value.kind, refused.value.status) == ("another-event-loop", 0)
    with pytest.raises(RetrievalError, match="event loop"):
        await asyncio.to_thread(asyncio.run, client.close())
    await client.collections()
    await client.close()


async def call_of(client: AsyncClient) -> None:
    await client.collections()


async def test_a_client_may_be_opened_in_another_event_loop_than_uses_it(gateway: Recorder) -> None:
    client = await asyncio.to_thread(lambda: asyncio.run(opened(gateway.url)))
    await client.collections()
    await client.close()


async def opened(url: str) -> AsyncClient:
    return AsyncClient(url)


PATHS = {"PYTHONPATH": os.pathsep.join(sys.path)}
FORKS = """
import os, sys

from retrieval_client import Client

client = Client(sys.argv[1])
client.collections()
child = os.fork()
if child == 0:
    client.collections()
    client.within(5_000).collections()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
client.collections()
"""


async def test_a_process_that_was_forked_never_uses_connections_of_its_parent(gateway: Recorder) -> None:
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", FORKS, gateway.url], env=PATHS, check=True)
    assert len(gateway.connections[0]) == 2, "of the parent"
    assert len(gateway.heads) == 4
