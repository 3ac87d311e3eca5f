"""A server that answers every request alike, and keeps what it was asked."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RecordedRequest:
    """One request: its method and path, and its headers in lower case."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Recorder:
    """Where the server is, and what it was asked so far. `status` and `body` are its answers."""

    url: str
    status: int = 200
    body: object = field(default_factory=dict)
    requests: list[RecordedRequest] = field(default_factory=list)

    def authorizations(self, path: str = "") -> set[str | None]:
        """The distinct `Authorization` headers of the requests to a path, or to all."""
        return {one.headers.get("authorization") for one in self.requests if one.path.startswith(path)}


@asynccontextmanager
async def recording(
    status: int = 200, body: object = None, context: ssl.SSLContext | None = None
) -> AsyncIterator[Recorder]:
    """Yields a server on a free port of 127.0.0.1."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")[:-2]
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = first.split(" ")
                recorder.requests.append(RecordedRequest(method, path, headers))
                content = json.dumps(recorder.body).encode()
                head = f"HTTP/1.1 {recorder.status} Some\r\ncontent-type: application/json\r\n"
                writer.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    scheme = "http" if context is None else "https"
    recorder = Recorder(f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}", status, body or {})
    try:
        yield recorder
    finally:
        server.close()
