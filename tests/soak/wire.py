"""Sends raw HTTP/1.1 bytes, well formed or not, each on a new connection.

With tests/support/secured.py turned on, by TLS and with what opens the port.
"""

import asyncio
import json
import re
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tests.support import secured

STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")
MOST_READ = 64_000_000


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: status (0: none), body as bytes, and seconds until its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    def json(self) -> object:
        return json.loads(self.body)


async def ask(
    port: int,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30.0,
) -> Reply:
    """Sends a well-formed request; returns its whole answer. Raises OSError or TimeoutError without one."""
    request = written(method, path, body, {"connection": "close", **(headers or {})})
    return await exchange(port, [request], timeout_s)


def written(method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> bytes:
    """Encodes a well-formed request; `body` as JSON."""
    content = b"" if body is None else json.dumps(body).encode()
    all_headers = {"host": "soak", **(headers or {})}
    if body is not None or method == "POST":
        all_headers |= {"content-type": "application/json", "content-length": str(len(content))}
    head = "".join(f"{name}: {value}\r\n" for name, value in all_headers.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content


async def exchange(port: int, parts: Iterable[bytes], timeout_s: float) -> Reply:
    """Sends the parts and reads until the answer is whole or the connection ends. Raises TimeoutError, OSError.

    Reads while sending: a server may refuse a request before it has read all of it.
    """
    started = time.monotonic()
    async with asyncio.timeout(timeout_s):
        reader, writer = await connected(port)
        sending = asyncio.create_task(_send(writer, _authorized(port, parts)))
        try:
            status, headers, body = await _answer(reader)
        finally:
            sending.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await sending
            writer.close()
    return Reply(status, headers, body, time.monotonic() - started)


async def connected(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connects to a port of this machine, by TLS where it is protected. Raises OSError."""
    return await asyncio.open_connection("127.0.0.1", port, limit=2**20, ssl=secured.client_context(port))


def _authorized(port: int, parts: Iterable[bytes]) -> Iterator[bytes]:
    for number, part in enumerate(parts):
        yield part if number else secured.authorized(port, part)


async def _send(writer: asyncio.StreamWriter, parts: Iterable[bytes]) -> None:
    with suppress(ConnectionError):  # refused before it was whole: the answer says why
        for part in parts:
            writer.write(part)
            await writer.drain()


async def _answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    while True:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, {}, b""
        found = STATUS.match(head)
        if not found:
            return 0, {}, head
        if found[1] != b"100":
            break
    lines = head.decode("latin-1").split("\r\n")[1:-2]
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        if "content-length" in headers:
            return int(found[1]), headers, await reader.readexactly(int(headers["content-length"]))
        if headers.get("transfer-encoding") != "chunked":
            return int(found[1]), headers, b"" if found[1] == b"204" else await reader.read(MOST_READ)
        parts = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        return int(found[1]), headers, b"".join(parts)
    return int(found[1]), headers, b""


def half_close(writer: asyncio.StreamWriter) -> None:
    """Sends FIN after what was sent. TLS does not know it: then the socket is half-closed without a word of TLS."""
    if writer.can_write_eof():
        writer.write_eof()
    else:
        writer.get_extra_info("socket").shutdown(socket.SHUT_WR)


def reset(writer: asyncio.StreamWriter) -> None:
    """Ends a connection with RST."""
    raw = writer.get_extra_info("socket")
    if raw is not None:
        with suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
