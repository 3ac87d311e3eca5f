"""A TCP proxy that injects faults before one HTTP service, named as in toxiproxy where it has them.

It finds the end of an answer by Content-Length, which all our services send.
"""

import asyncio
import json
import random
import re
from contextlib import suppress
from typing import Literal, Self

from tests.soak import wire
from tests.support import secured
from tests.support.processes import free_port

Toxic = Literal[
    "refused",
    "reset_peer",
    "status_500",
    "status_503",
    "garbage",
    "unknown_field",
    "latency",
    "jitter",
    "timeout",
    "slicer",
    "read_only",
    "full",
    "hung_finish",
]
LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
WRITING = re.compile(rb"(PUT|DELETE) |POST [^ ?]*/(documents|documents/delete|finish|publish)[ ?]")
FINISH = re.compile(rb"POST [^ ?]*/finish[ ?]")
LATENCY_S = 0.4
JITTER_S = 0.3


class FaultProxy:
    """Forwards requests one by one to `127.0.0.1:port`; `toxic` names the fault on the wire, None for none."""

    def __init__(self, upstream: int, seed: str = "") -> None:
        self.port = free_port()
        self._rng = random.Random(seed)
        self.toxic: Toxic | None = None
        self._upstream = upstream
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def url(self) -> str:
        return f"{secured.scheme()}://127.0.0.1:{self.port}"

    async def open(self) -> Self:
        """Listens. Returns itself."""
        self._server = await asyncio.start_server(
            self._serve, "127.0.0.1", self.port, limit=2**24, backlog=1_000, ssl=secured.server_context()
        )
        return self

    async def close(self) -> None:
        """Stops listening and resets open connections."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            wire.reset(writer)

    async def put(self, toxic: Toxic | None) -> None:
        """Sets the fault from now on, for open connections too."""
        self.toxic = toxic
        if toxic == "refused":
            await self.close()
        elif self._server is None:
            await self.open()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        try:
            while request := await _message(reader):
                if self.toxic == "timeout" or (self.toxic == "hung_finish" and FINISH.match(request)):
                    await reader.read()  # until the caller gives up
                    return None
                if self.toxic == "reset_peer":
                    return wire.reset(writer)
                if made := self._made_up(request):
                    writer.write(made)
                    continue
                if upstream is None:
                    upstream = await asyncio.open_connection(
                        "127.0.0.1", self._upstream, limit=2**24, ssl=secured.client_context(self._upstream)
                    )
                    self._writers.add(upstream[1])
                if self.toxic == "jitter":
                    await asyncio.sleep(self._rng.uniform(0.0, JITTER_S))
                upstream[1].write(request)
                answer = await _message(upstream[0])
                if not answer:
                    return wire.reset(writer)
                await self._answered(writer, answer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            wire.reset(writer)  # cancelled when the loop ends, and then nobody asks for this task's outcome
        finally:
            for stream in (writer, upstream[1] if upstream else writer):
                self._writers.discard(stream)
                stream.close()

    def _made_up(self, request: bytes) -> bytes | None:
        match self.toxic:
            case "read_only" if WRITING.match(request):
                return _response(b"503 Service Unavailable", _problem("unavailable", 503), b"application/problem+json")
            case "full" if WRITING.match(request):
                status = b"507 Insufficient Storage"
                return _response(status, _problem("insufficient-storage", 507), b"application/problem+json")
            case "status_500":
                return _response(b"500 Internal Server Error", b"<html>oops</html>", b"text/html")
            case "status_503":
                return _response(b"503 Service Unavailable", b'{"error":"no"}', b"application/json")
            case "garbage":
                return _response(b"200 OK", b'{"hits": [{]', b"application/json")
        return None

    async def _answered(self, writer: asyncio.StreamWriter, answer: bytes) -> None:
        match self.toxic:
            case "unknown_field":
                writer.write(_with_unknown_field(answer))
            case "latency":
                await asyncio.sleep(LATENCY_S)
                writer.write(answer)
            case "slicer":
                for at in range(len(answer)):
                    writer.write(answer[at : at + 1])
                    await writer.drain()
                    await asyncio.sleep(0.1)
            case _:
                writer.write(answer)
        await writer.drain()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Reads one request or answer; empty when the connection ended between two."""
    with suppress(asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        length = LENGTH.search(head)
        return head + (await reader.readexactly(int(length[1])) if length else b"")
    return b""


def _response(status: bytes, body: bytes, media: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n%b" % (status, media, len(body), body)


def _problem(kind: str, status: int) -> bytes:
    problem = {"type": f"urn:problem:{kind}", "title": kind, "status": status, "detail": "no writes", "request_id": "-"}
    return json.dumps(problem).encode()


def _with_unknown_field(answer: bytes) -> bytes:
    """Adds an unknown field to an answer, at the top and in its lists, as a later release might."""
    head, _, body = answer.partition(b"\r\n\r\n")
    try:
        value = json.loads(body)
    except ValueError:
        return answer
    if not isinstance(value, dict):
        return answer
    for part in (value, *(element for some in value.values() if isinstance(some, list) for element in some)):
        if isinstance(part, dict):
            part["added_by_a_later_release"] = {"x": 1}
    content = json.dumps(value).encode()
    return LENGTH.sub(b"content-length: %d" % len(content), head) + b"\r\n\r\n" + content
