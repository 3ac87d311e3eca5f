"""What answers in place of Elasticsearch cannot send the lexical service's requests on to another host."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from elasticsearch import ApiError

from services.storage.elasticsearch.client import open_client
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
        client = open_client(there, "c2VjcmV0", None, 2)
        try:
            with pytest.raises(ApiError, match="307"):
                await client.search(index="c", body={"query": {"match_all": {}}})
        finally:
            await client.close()
        assert other.authorizations() == set()
