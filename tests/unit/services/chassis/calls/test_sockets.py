"""Checks the bound on the size of a backend's answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from services.chassis.calls import sockets
from services.chassis.calls.sockets import SocketTransport
from services.chassis.calls.transport import AnswerBroken, Outgoing

MIB = 1_048_576


@asynccontextmanager
async def endless(head: bytes, chunk: bytes) -> AsyncIterator[tuple[str, list[int]]]:
    """Runs a server whose answers never end. Yields its URL and the number of bytes it has sent."""
    sent = [0]

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + head + b"\r\n\r\n")
            while True:
                writer.write(chunk)
                await writer.drain()
                sent[0] += len(chunk)

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", sent
    finally:
        server.close()


@pytest.mark.parametrize(
    ("head", "chunk"),
    [
        (b"transfer-encoding: chunked", b"10000\r\n" + b"a" * 65_536 + b"\r\n"),
        (b"content-length: 10000000000", b"a" * 65_536),
        (b"connection: close", b"a" * 65_536),
    ],
    ids=["chunked", "declared", "until closed"],
)
async def test_an_answer_without_end_is_broken_off(head: bytes, chunk: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "MOST_ANSWER_BYTES", MIB)
    transport = SocketTransport("127.0.0.1")
    try:
        async with endless(head, chunk) as (url, sent), asyncio.timeout(5.0):
            with pytest.raises(AnswerBroken, match="1048576 bytes"):
                await transport.send(Outgoing("GET", url, {}, None, 1.0))
            assert sent[0] < 16 * MIB  # includes what the sockets buffered
    finally:
        await transport.aclose()
