"""The server of MCP, as docs/apps/README.md tells an assistant to start it or to find it."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, closing
from pathlib import Path

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

APPS = Path(os.environ["PYTHONPATH"])
KEY = os.environ["GATEWAY_API_KEY"]
BLOCKS = re.findall(r"```json\n(.*?)```", (APPS / "README.md").read_text(encoding="utf-8"), re.DOTALL)
STARTED, FOUND = (json.loads(block)["mcpServers"]["shop"] for block in BLOCKS)
PROXIES = {name: os.environ[name] for name in ("http_proxy", "HTTP_PROXY")}
COMMAND = str(Path(sys.executable).with_name(STARTED["command"]))


@asynccontextmanager
async def over_stdio(key=KEY):
    assert (STARTED["args"], STARTED["env"]) == (["http://127.0.0.1:8000"], {"GATEWAY_API_KEY": "rsk_…"})
    async with Client(
        StdioServerParameters(command=COMMAND, args=[os.environ["GATEWAY"]], env={"GATEWAY_API_KEY": key, **PROXIES})
    ) as client:
        yield client


@pytest.fixture(scope="module")
def port():
    """The port of a server over HTTP. Its environment has a key, which is not for its callers."""
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        chosen = free.getsockname()[1]
    process = subprocess.Popen([COMMAND, os.environ["GATEWAY"], "--http", str(chosen)])
    ends_at = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", chosen)).close()
            break
        except OSError:
            assert process.poll() is None
            assert time.monotonic() < ends_at
            time.sleep(0.05)
    yield chosen
    process.terminate()
    process.wait()


@asynccontextmanager
async def over_http(port, key=KEY):
    url = FOUND["url"].replace("8011", str(port))
    headers = {name: value.replace("rsk_…", key) for name, value in FOUND["headers"].items()} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


@pytest.fixture(params=["stdio", "http"])
def opened(request):
    """Opens a client of a server, with a key."""
    if request.param == "stdio":
        return over_stdio
    port = request.getfixturevalue("port")
    return lambda key=KEY: over_http(port, key)


async def test_every_tool_reads_and_says_so(opened):
    async with opened() as client:
        tools = (await client.list_tools()).tools
        assert {tool.name for tool in tools} == {"search", "get_documents", "list_collections"}
        assert all(tool.annotations.read_only_hint and tool.description for tool in tools)
        assert "context" not in str([tool.input_schema for tool in tools])
        listed = (await client.call_tool("list_collections")).structured_content
        assert listed == {"result": [{"name": "c", "documents": 41, "metadata": {}}]}
        request = {"collection": "c", "query": "word 7", "pipeline": "bm25", "top": 1}
        answer = (await client.call_tool("search", request)).structured_content
        assert [(hit["id"], hit["fragments"]) for hit in answer["hits"]] == [("d07", ["word 7"])]
        assert answer["more"]
        read = (await client.call_tool("get_documents", {"collection": "c", "ids": ["d07", "x"]})).structured_content
        assert ([document["text"] for document in read["documents"]], read["missing"]) == (["word 7"], ["x"])


async def test_a_failure_tells_the_model_what_to_do(opened):
    async with opened() as client:
        refused = await client.call_tool("search", {"collection": "absent", "query": "tea", "pipeline": "bm25"})
        assert refused.is_error
        assert "absent" in refused.content[0].text


@pytest.mark.parametrize("key", ["rsk_000000000000_wrong", "no key", None])
async def test_a_caller_over_http_reads_with_its_own_key_alone(port, key):
    async with over_http(port, key) as client:
        refused = await client.call_tool("list_collections")
        assert refused.is_error
        assert "key" in refused.content[0].text


def test_a_page_of_another_host_cannot_call_the_server(port):
    answer = httpx2.post(
        FOUND["url"].replace("8011", str(port)), headers={"host": "evil.example"}, json={}, trust_env=False
    )
    assert answer.status_code == 421


def test_a_key_never_travels_unencrypted():
    started = [COMMAND, "http://search.example"]
    done = subprocess.run(started, env={"GATEWAY_API_KEY": KEY}, capture_output=True, text=True)
    assert (done.returncode, KEY in done.stderr) == (2, False)
    assert "https://" in done.stderr
