"""A server of the Model Context Protocol over stdio, by which a model reads collections. It changes nothing."""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import BaseModel

from retrieval_client import AsyncClient, RetrievalError
from retrieval_client.documents import DocumentsAnswer, MetadataValue

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


def build_server(gateway: AsyncClient) -> MCPServer:
    """Returns a server whose tools read over this client."""

    async def search(
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
        with told():
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

    async def get_documents(collection: str, ids: list[str]) -> DocumentsAnswer:
        """Returns whole documents by their ids, and which of these are missing."""
        with told():
            return await gateway.get_documents(collection, ids)

    async def list_collections() -> list[ReadableCollection]:
        """Returns the collections that can be searched."""
        with told():
            listed = await gateway.collections()
        found = []
        for view in listed.collections:
            states = [state for one in view.backends for state in one.generations if state.generation == view.live]
            if states:
                declared = {field: kind for state in states for field, kind in state.declaration.metadata.items()}
                documents = max(state.documents for state in states)
                found.append(ReadableCollection(name=view.collection, documents=documents, metadata=declared))
        return found

    server = MCPServer("retrieval")
    for tool in (search, get_documents, list_collections):
        server.add_tool(tool, annotations=ToolAnnotations(read_only_hint=True))
    return server


@contextmanager
def told() -> Iterator[None]:
    """Tells the model why a call failed, so that it can ask otherwise."""
    try:
        yield
    except RetrievalError as error:
        raise ToolError(error.detail) from error


def main() -> None:
    """Serves one gateway until the standard input ends."""
    parser = argparse.ArgumentParser(
        prog="retrieval-mcp", description=f"Lets a model read a gateway. The key is read from {KEY_VARIABLE}."
    )
    parser.add_argument("url", help="of the gateway, as in http://127.0.0.1:8000")
    parser.add_argument("--ca-file", help="the authority of its certificate (PEM)")
    arguments = parser.parse_args()
    key = os.environ.get(KEY_VARIABLE) or None
    build_server(AsyncClient(arguments.url, key=key, ca_file=arguments.ca_file)).run()
