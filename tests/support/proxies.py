"""A server on a port that keeps what it gets, as a gateway or as a proxy that the environment names."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

BODIES = {b"/v1/collections ": b'{"collections": [], "backends": []}', b"/v1/rerank ": b'{"results": []}'}


@dataclass
class Recorder:
    """A server, or a proxy that answers itself: the heads of requests, by connection."""

    url: str = ""
    connections: list[list[bytes]] = field(default_factory=list)

    @property
    def heads(self) -> list[bytes]:
        return [head for connection in self.connections for head in connection]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads: list[bytes] = []
        self.connections.append(heads)
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                if heads[-1].startswith(b"CONNECT "):
                    writer.write(b"HTTP/1.1 502 No\r\ncontent-length: 0\r\n\r\n")
                    continue
                size = [line[16:] for line in heads[-1].lower().splitlines() if line.startswith(b"content-length: ")]
                await reader.readexactly(int(size[0]) if size else 0)
                body = next((body for path, body in BODIES.items() if path in heads[-1]), b"{}")
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
        writer.close()


@asynccontextmanager
async def recording() -> AsyncIterator[Recorder]:
    recorder = Recorder()
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0)
    recorder.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield recorder
    finally:
        server.close()
