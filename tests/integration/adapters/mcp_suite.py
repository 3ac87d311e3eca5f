"""The server of MCP. A client of MCP starts it as a desktop application does."""

import os
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters


def opened():
    command = str(Path(sys.executable).with_name("retrieval-mcp"))
    return Client(StdioServerParameters(command=command, args=[os.environ["GATEWAY"]]))


async def test_every_tool_reads_and_says_so():
    async with opened() as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"search", "get_documents", "list_collections"}
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        listed = (await client.call_tool("list_collections")).structured_content
        assert listed == {"result": [{"name": "c", "documents": 40, "metadata": {}}]}
        asked = {"collection": "c", "query": "word 7", "pipeline": "bm25", "top": 1}
        found = (await client.call_tool("search", asked)).structured_content
        assert [(hit["id"], hit["fragments"]) for hit in found["hits"]] == [("d07", ["word 7"])]
        assert found["more"]
        read = (await client.call_tool("get_documents", {"collection": "c", "ids": ["d07", "x"]})).structured_content
        assert ([one["text"] for one in read["documents"]], read["missing"]) == (["word 7"], ["x"])


async def test_a_failure_tells_the_model_what_to_do():
    async with opened() as client:
        refused = await client.call_tool("search", {"collection": "absent", "query": "tea", "pipeline": "bm25"})
        assert refused.is_error
        assert "absent" in refused.content[0].text
