"""Owns a server that answers as a faulty Elasticsearch would, over a real socket."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from services.contracts.collections import CollectionDeclaration
from services.lexical.elasticsearch_mapping import IndexMeta, stamp_of_new

HELD = CollectionDeclaration()
META = IndexMeta(layout=2, prefix="", declaration=HELD, stamp=stamp_of_new(HELD, 1)).model_dump(mode="json")
JSON = "application/vnd.elasticsearch+json;compatible-with=8"


@dataclass
class Reply:
    """An answer that is sent after `delay_s`; a `broken` one ends before its declared length."""

    body: object = None
    status: int = 200
    content_type: str = JSON
    delay_s: float = 0.0
    broken: bool = False


@dataclass
class ElasticsearchStub:
    """Holds one generation, notes@1, with valid metadata; `reply` answers searches, bulks and gets."""

    reply: Callable[[str], Reply] = lambda path: Reply({})
    port: int = 0
    asked: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Serves inside the context; a second context uses the same port."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield f"http://127.0.0.1:{self.port}"
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                path = line.split()[1].decode()
                length = 0
                while (header := (await reader.readline()).strip()) != b"":
                    name, _, value = header.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                await reader.readexactly(length)
                self.asked.append(path)
                await self._answer(self._reply(path), writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _reply(self, path: str) -> Reply:
        place = path.partition("?")[0]
        if place == "/notes@1":
            return Reply({"notes@1": {"mappings": {"_meta": META}, "aliases": {}}})
        if place == "/_cluster/health":
            return Reply({"status": "green"})
        return self.reply(place)

    async def _answer(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(reply.delay_s)
        body = reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()
        head = (
            f"HTTP/1.1 {reply.status} X\r\ncontent-type: {reply.content_type}\r\nx-elastic-product: Elasticsearch\r\n"
            f"content-length: {len(body) + reply.broken}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        if reply.broken:
            raise ConnectionError
