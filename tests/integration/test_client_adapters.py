"""The adapters of the client package, in an environment of their own, over a gateway on a port."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.images import ROOT
from tests.support.real_stack import RealStack, numbered, real_stack
from tests.support.served import on_a_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PACKAGES = ("langchain-core==1.8.3", "langchain-tests==1.1.9", "mcp==2.3.0", "pytest-asyncio>=1.2")

# LangChain's own tests of a retriever.
OF_LANGCHAIN = """
import os
from langchain_tests.integration_tests import RetrieversIntegrationTests
from retrieval_client import Client
from retrieval_client.adapters.langchain import GatewayRetriever

class TestGatewayRetriever(RetrieversIntegrationTests):
    retriever_constructor = GatewayRetriever
    retriever_constructor_params = {
        "client": Client(os.environ["GATEWAY"]), "collection": "c", "pipeline": "bm25", "k": 5}
    retriever_query_example = "word"

def test_a_document_has_its_id_text_title_and_score():
    [found] = GatewayRetriever(**TestGatewayRetriever.retriever_constructor_params).invoke("word 7", k=1)
    assert (found.id, found.page_content, found.metadata["title"]) == ("d07", "word 7", "")
    assert found.metadata["score"] > 0
"""
# A client of MCP starts the server as a desktop application does.
OF_MCP = """
import os, sys
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
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the package, its extras, and the frameworks' own tests."""
    folder = tmp_path_factory.mktemp("adapters")
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], check=True)
    interpreter = folder / "venv" / "bin" / "python"
    package = f"{ROOT / 'clients' / 'python'}[langchain,mcp]"
    subprocess.run([uv, "pip", "install", "--quiet", "--python", interpreter, package, *PACKAGES], check=True)
    return interpreter


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[RealStack]:
    async with real_stack(tmp_path) as opened:
        assert (await opened.begin(build="b")).status_code == 200
        assert (await opened.send(numbered(40), build="b")).json()["complete"]
        assert (await opened.post("/publish", build="b")).status_code == 200
        yield opened


@pytest.mark.parametrize(("tests", "count"), [(OF_LANGCHAIN, 6), (OF_MCP, 2)], ids=["langchain", "mcp"])
async def test_an_adapter_passes_its_tests(
    python: Path, stack: RealStack, tmp_path: Path, tests: str, count: int
) -> None:
    (tmp_path / "test_adapter.py").write_text(tests, encoding="utf-8")
    assert isinstance(stack.into_gateway.inner, httpx.ASGITransport)
    async with on_a_port(stack.into_gateway.inner.app) as address:
        process = await asyncio.create_subprocess_exec(
            *(str(python), "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-o", "asyncio_mode=auto"),
            *("-p", "no:cacheprovider", "test_adapter.py"),
            cwd=tmp_path,
            env={"PATH": os.defpath, "HOME": str(tmp_path), "GATEWAY": address},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert f"{count} passed" in output
