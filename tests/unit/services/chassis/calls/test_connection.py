"""Checks what a connection reads: answers in pieces, to their end, one after the other."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import uvloop

from services.chassis.calls.sockets import PeerConnection, SocketTransport
from services.chassis.calls.transport import AnswerBroken, ConnectionLost, Outgoing, TransportError

OK = b"HTTP/1.1 200 OK\r\nretry-after: 3\r\n"


@asynccontextmanager
async def answering(*pieces: bytes, closes: bool = False) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Runs a server that answers each request with these pieces. Yields its URL and the heads that it was sent."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.005)
                if closes:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/a?b=c", heads
    finally:
        server.close()


async def answers(*pieces: bytes, closes: bool = False, times: int = 2) -> tuple[list[bytes], list[bytes]]:
    transport = SocketTransport("127.0.0.1", most=1)
    try:
        async with answering(*pieces, closes=closes) as (url, heads), asyncio.timeout(5.0):
            request = Outgoing("GET", url, {"x-request-id": "1"}, None, 1.0)
            found = [await transport.send(request) for _ in range(times)]
            assert {one.headers["retry-after"] for one in found} == {"3"}
            return [one.content for one in found], heads
    finally:
        await transport.aclose()


@pytest.mark.parametrize(
    "pieces",
    [
        (OK + b"content-length: 4\r\n\r\nabcd",),
        (OK[:20], OK[20:] + b"content-le", b"ngth: 4\r\n\r", b"\nab", b"cd"),
        (OK + b"transfer-encoding: chunked\r\n\r\n2\r\nab\r\n", b"2\r\ncd\r\n0\r\n", b"\r\n"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\n", OK + b"content-length: 4\r\n\r\nabcd"),
        (OK + b"content-length: 4\r\n\r\nabcd" + OK + b"content-length: 4\r\n\r\nefgh",),
    ],
    ids=["whole", "in pieces", "in chunks", "after another head", "before one that nobody asked for"],
)
async def test_answers_are_read_to_their_end_one_after_the_other(pieces: Sequence[bytes]) -> None:
    contents, heads = await answers(*pieces)
    assert contents == [b"abcd", b"abcd"]
    assert all(head.startswith(b"GET /a?b=c HTTP/1.1\r\n") for head in heads)


async def test_an_answer_may_end_with_its_connection() -> None:
    contents, _ = await answers(OK + b"\r\n", b"ab", b"cd", closes=True)
    assert contents == [b"abcd", b"abcd"]


def test_attempts_to_connect_leave_nothing_behind() -> None:
    async def attempts() -> int:
        transport, before = SocketTransport("127.0.0.1"), kept()
        for _ in range(20):
            with suppress(TransportError):  # nothing listens there
                await transport.send(Outgoing("GET", "http://127.0.0.1:9/", {}, None, 1.0))
        return kept() - before

    def kept() -> int:
        return sum(type(value) is PeerConnection for value in gc.get_objects(generation=0))

    assert not gc.isenabled()  # as in a load generator
    assert uvloop.run(attempts()) <= 1  # the last one may still end


@pytest.mark.parametrize(
    ("piece", "fault"),
    [
        (b"", ConnectionLost),
        (OK[:10], AnswerBroken),
        (OK + b"content-length: 9\r\n\r\nabcd", AnswerBroken),
        (b"220 mail.example ESMTP\r\n", AnswerBroken),
        (b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: b\r\n\r\n", AnswerBroken),
        (OK + b"x: " + b"a" * 70_000, AnswerBroken),
    ],
    ids=["none", "half a head", "half a body", "no HTTP", "another protocol", "a long head"],
)
async def test_an_answer_that_breaks_off_is_none(
    piece: bytes, fault: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(fault):
        await answers(piece, closes=True)
    assert not caplog.records  # an event loop logs what a protocol raises


async def test_a_connection_that_was_opening_when_all_was_closed_ends_with_its_answer() -> None:
    ended = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 2\r\n\r\nab")
        with suppress(ConnectionError):
            await reader.read()
        ended.set()
        writer.close()

    transport = SocketTransport("127.0.0.1")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server, asyncio.timeout(5.0):
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        asked = asyncio.create_task(transport.send(Outgoing("GET", url, {}, None, 1.0)))
        await asyncio.sleep(0)
        await transport.aclose()
        assert (await asked).content == b"ab"
        await ended.wait()


async def test_a_header_that_would_end_its_line_is_not_sent() -> None:
    transport = SocketTransport("127.0.0.1")
    async with answering(OK + b"content-length: 0\r\n\r\n") as (url, heads):
        with pytest.raises(ValueError, match="line end"):
            await transport.send(Outgoing("GET", url, {"x-client": "a\r\nx: b"}, None, 1.0))
    assert heads == []
    await transport.aclose()
