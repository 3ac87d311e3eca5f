"""What the client package says of requests that cannot be sent, that the gateway refuses, or whose time is over."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx
import pytest

from retrieval_client import AsyncClient, Client, RetrievalError, clients
from tests.support.client_subjects import ClientKind, Subject, subject
from tests.support.real_stack import real_stack

KINDS: tuple[ClientKind, ...] = ("blocking", "awaiting")


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object()], ids=["NaN", "half", "object"])
async def test_what_json_cannot_hold_is_refused_by_the_id_of_its_document(tmp_path: Path, value: object) -> None:
    documents = [{"id": "Infinity", "text": "NaN"}, {"id": "odd", "text": "word", "metadata": {"price": value}}]
    async with real_stack(tmp_path) as stack, subject("awaiting", stack.into_gateway) as client:
        await client.call("begin", "shop", build="b")
        with pytest.raises(RetrievalError, match="'odd'") as refused:
            await client.call("load", "shop", documents, build="b")
        with pytest.raises(RetrievalError) as asked:
            await client.call(
                "search", "shop", "word", filter={"all": [{"field": "price", "op": "eq", "value": value}]}
            )
    assert (refused.value.kind, asked.value.kind) == ("not-json", "not-json")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_names_each_fault_once(tmp_path: Path, kind: ClientKind) -> None:
    async with real_stack(tmp_path) as stack, subject(kind, stack.into_gateway) as client:
        with pytest.raises(RetrievalError) as refused:
            await client.call("search", "shop", "water", top=5_000, offset=-1)
    assert [str(refused.value).count(field) for field in ("top:", "offset:")] == [1, 1]


@pytest.mark.parametrize("kind", KINDS)
async def test_documents_of_two_generations_are_never_mixed(tmp_path: Path, kind: ClientKind) -> None:
    async with real_stack(tmp_path) as stack, subject(kind, stack.into_gateway) as client:

        async def publish(build: str, text: str) -> None:
            await client.call("begin", "shop", build=build, new_generation=True)
            await client.call("load", "shop", ({"id": f"{build}{n}", "text": text} for n in range(150)), build=build)
            await client.call("publish", "shop", build=build)

        await publish("a", "before")
        reading = client.reading("shop")
        assert (await anext(reading)).text == "before"
        await publish("b", "after")
        with pytest.raises(RetrievalError, match=r"shop@2 .+ shop@1 .+ again") as mixed:
            [document async for document in reading]
        assert mixed.value.kind == "another-generation"
        assert {document.text for document in await client.documents("shop")} == {"after"}


@asynccontextmanager
async def slow_server(
    answer: Callable[[asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[tuple[str, list[int]]]:
    """Yields the address of a server that answers so, and the deadlines (ms) that its requests named."""
    deadlines: list[int] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            deadlines.extend(int(found) for found in re.findall(rb"x-deadline-ms: (\d+)", head))
            await answer(writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", deadlines
    finally:
        server.close()


def client_of(kind: ClientKind, url: str, deadline_ms: int) -> Subject:
    return Subject((Client if kind == "blocking" else AsyncClient)(url, deadline_ms=deadline_ms))


async def drip(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.1)


async def answer_late(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(0.5)
    body = b'{"collections": [], "backends": []}'
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()


@pytest.mark.parametrize("kind", KINDS)
async def test_a_call_ends_at_its_deadline_though_its_answer_goes_on_arriving(
    kind: ClientKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "GRACE_S", 0.3)
    async with slow_server(drip) as (url, _):
        began = time.monotonic()
        with pytest.raises(RetrievalError, match=rf"{url}/v1/collections: .+ after \d\.\d s") as late:
            await client_of(kind, url, 500).call("collections")
    assert (late.value.kind, late.value.status) == ("timeout", 0)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", KINDS)
async def test_the_wait_for_a_connection_is_of_the_deadline(kind: ClientKind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "MOST_CONNECTIONS", 1)
    monkeypatch.setattr(clients, "GRACE_S", 0.3)
    async with slow_server(answer_late) as (url, deadlines):
        client = client_of(kind, url, 10_000)
        await asyncio.gather(client.call("collections"), client.call("collections"))
        assert max(deadlines) <= 10_000
        assert min(deadlines) <= 9_600
    async with slow_server(drip) as (url, deadlines):
        began = time.monotonic()
        client = client_of(kind, url, 300)
        calls = (client.call("collections"), client.call("collections"))
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [one.kind for one in ended if isinstance(one, RetrievalError)] == ["timeout", "timeout"]
    assert all(url in str(one) for one in ended)
    assert len(deadlines) == 1
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_cannot_be_unpacked_is_a_bad_one_and_not_asked_for_again(kind: ClientKind) -> None:
    async def corrupt(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnone")
        await writer.drain()

    async with slow_server(corrupt) as (url, deadlines):
        client = client_of(kind, url, 5_000)
        for call, given in (("collections", ()), ("load", ("shop", [{"id": "a", "text": "word"}]))):
            with pytest.raises(RetrievalError, match=url) as bad:
                await client.call(call, *given)
            assert bad.value.kind == "bad-answer"
    assert len(deadlines) == 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("call", "given", "expected"),
    [
        ("search", ("\ud800", "water"), "not-json"),
        ("get_document", ("shop", "\ud800"), "not-json"),
        ("search", ("a/b", "water"), "bad-input"),
        ("get_document", ("shop", ""), "bad-input"),
    ],
)
async def test_a_name_or_id_that_no_path_can_hold_is_refused_unsent(
    kind: ClientKind, call: str, given: tuple[str, ...], expected: str
) -> None:
    sent: list[httpx.Request] = []

    def answered(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(200)

    async with subject(kind, httpx.MockTransport(answered)) as client:
        with pytest.raises(RetrievalError, match="name") as refused:
            await client.call(call, *given)
    assert (refused.value.kind, sent) == (expected, [])
