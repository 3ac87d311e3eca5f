"""What answers in place of Elasticsearch cannot send the lexical service's requests on to another host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from services.chassis.errors import UpstreamFailed
from services.lexical.settings import LexicalSettings
from services.storage.elasticsearch.client import ElasticsearchClients
from tests.support.recorded_requests import recording


@asynccontextmanager
async def redirecting(to: str) -> AsyncIterator[str]:
    """Yields the address of a server that sends every request on to another address, with its method and body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(
            f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {to}/c/_search\r\nX-Elastic-Product: Elasticsearch\r\n"
            "Content-Length: 0\r\nConnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"http://{host}:{port}"


async def test_neither_key_nor_query_follows_a_redirect_to_another_host() -> None:
    async with recording(body={}) as other, redirecting(other.url) as there:
        given = {"elasticsearch_url": there, "elasticsearch_api_key": "c2VjcmV0"}
        clients = ElasticsearchClients.connect(LexicalSettings.model_validate(given), 2)
        try:
            with pytest.raises(UpstreamFailed, match="307"):
                await clients.reading.answer(bytes, "POST", "/c/_search", {"query": {"match_all": {}}})
        finally:
            await clients.close()
        assert other.authorizations() == set()
