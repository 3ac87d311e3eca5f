"""A server of the Model Context Protocol, over stdio or HTTP, by which a model reads collections. Changes nothing."""

import argparse
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.answers import DocumentsAnswer, MetadataValue

KEY_VARIABLE = "GATEWAY_API_KEY"
FRAGMENTS = 3


class FoundDocument(BaseModel):
    """A hit: the parts of its text that hold words of the query; `get_documents` has the whole."""

    id: str
    score: float
    title: str
    metadata: dict[str, MetadataValue]
    fragments: list[str]


class FoundDocuments(BaseModel):
    """A page of hits, best first, and whether more follow."""

    hits: list[FoundDocument]
    more: bool


class ReadableCollection(BaseModel):
    """A collection, how many documents it has, and the metadata fields of filters with their kinds."""

    name: str
    documents: int
    metadata: dict[str, str]


def build_server(url: str, ca_file: str | None, key_of: Callable[[Context], str | None]) -> MCPServer:
    """Returns a server whose tools read the gateway at `url`, each call with the key that `key_of` finds for it."""

    @asynccontextmanager
    async def gateway_for(context: Context) -> AsyncIterator[AsyncClient]:
        """Tells the model why a call failed, so that it can ask otherwise."""
        try:
            client = AsyncClient(url, key=key_of(context), ca_file=ca_file)
        except ValueError as error:
            raise ToolError(str(error)) from error
        async with client:
            try:
                yield client
            except RetrievalError as error:
                raise ToolError(error.detail) from error

    async def search(
        context: Context,
        collection: str,
        query: str,
        top: int = 10,
        offset: int = 0,
        filter: dict[str, Any] | None = None,
        pipeline: str | None = None,
    ) -> FoundDocuments:
        """Returns the best documents of a collection for a query, with the fragments that match.

        `offset` skips hits. `filter` has `all`, `any` or `not` of conditions {"field", "op", "value"}, whose `op` is
        eq, in, gt, gte, lt, lte or exists; `list_collections` names the fields.
        """
        async with gateway_for(context) as gateway:
            answer = await gateway.search(
                collection,
                query,
                top=top,
                offset=offset,
                filter=filter,  # type: ignore[arg-type]  # of the model; the gateway checks it
                pipeline=pipeline,
                include=["title", "metadata"],
                highlight=FRAGMENTS,
            )
        hits = [
            FoundDocument(
                id=hit.id,
                score=hit.score,
                title=hit.title or "",
                metadata=hit.metadata or {},
                fragments=[fragment.text for fragment in hit.highlights.text] if hit.highlights else [],
            )
            for hit in answer.hits
        ]
        return FoundDocuments(hits=hits, more=answer.page is not None and answer.page.more)

    async def get_documents(context: Context, collection: str, ids: list[str]) -> DocumentsAnswer:
        """Returns whole documents by their ids, and which of these are missing."""
        async with gateway_for(context) as gateway:
            return await gateway.get_documents(collection, ids)

    async def list_collections(context: Context) -> list[ReadableCollection]:
        """Returns the collections that can be searched."""
        async with gateway_for(context) as gateway:
            listed = await gateway.collections()
        collections = []
        for view in listed.collections:
            states = [state for held in view.backends for state in held.generations if state.generation == view.live]
            if states:
                declared = {field: kind for state in states for field, kind in state.declaration.metadata.items()}
                documents = max(state.documents for state in states)
                collections.append(ReadableCollection(name=view.collection, documents=documents, metadata=declared))
        return collections

    server = MCPServer("retrieval")
    for tool in (search, get_documents, list_collections):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    return server


def bearer_key(context: Context) -> str | None:
    """Returns the key that a caller over HTTP has sent: each has its own rights."""
    scheme, _, key = (context.headers or {}).get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None


def main() -> None:
    """Serves one gateway until the standard input ends, or over HTTP until it is told to end."""
    parser = argparse.ArgumentParser(prog="retrieval-mcp", description="Lets a model read a gateway.")
    parser.add_argument("url", help=f"URL of the gateway: http://127.0.0.1:8000; {KEY_VARIABLE} has its key")
    parser.add_argument("--ca-file", help="PEM file of the authority of its certificate")
    http = "serve http://127.0.0.1:PORT/mcp instead of stdio; each caller sends its own key"
    parser.add_argument("--http", type=int, metavar="PORT", help=http)
    arguments = parser.parse_args()
    key = os.environ.get(KEY_VARIABLE) or None
    try:
        AsyncClient(arguments.url, key=key if arguments.http is None else None, ca_file=arguments.ca_file)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    if arguments.http is None:
        build_server(arguments.url, arguments.ca_file, lambda _: key).run()
    else:
        build_server(arguments.url, arguments.ca_file, bearer_key).run(
            "streamable-http", port=arguments.http, stateless_http=True, json_response=True
        )
