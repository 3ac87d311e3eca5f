"""Kept tools read the gateway's OpenAPI document, in an environment of their own, over a gateway on a port."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from tests.support.environments import environment
from tests.support.keys import Keys, bearing
from tests.support.real_stack import real_stack
from tests.support.served import on_a_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

PACKAGES = ("openapi-python-client==0.29.1", "schemathesis==4.32.5")
CHECKS = (
    *("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance"),
    *("response_schema_conformance", "ignored_auth", "unsupported_method", "allow_header_conformance"),
)
# What a program does with the package that the generator has written.
USED = """
import os
from gateway_client import AuthenticatedClient
from gateway_client.api.collections import begin_collection, publish
from gateway_client.api.documents import index_documents
from gateway_client.api.search import search
from gateway_client.models import (
    BeginCollection, DocumentsRequest, PublishRequest, SearchRequest, SearchRequestIncludeItem, SentDocument)

client = AuthenticatedClient(base_url=os.environ["GATEWAY"], token=os.environ["KEY"])
build = begin_collection.sync("shop", client=client, body=BeginCollection(build="b")).build
documents = [SentDocument(id="kettle", text="Boils water."), SentDocument(id="lamp", title="Lamp")]
assert index_documents.sync("shop", client=client, body=DocumentsRequest(documents=documents, build=build)).complete
assert publish.sync("shop", client=client, body=PublishRequest(build=build)).documents == 2
asked = SearchRequest(query="boil water", pipeline="bm25", include=[SearchRequestIncludeItem.TITLE])
found = search.sync("shop", client=client, body=asked, x_deadline_ms=5000)
absent = search.sync("absent", client=client, body=asked)
print([hit.id for hit in found.hits], absent.status, absent.type_)
"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tools' commands."""
    return environment(tmp_path_factory.mktemp("tools"), *PACKAGES)


@pytest.fixture
async def gateway(tmp_path: Path, keys: Keys) -> AsyncIterator[str]:
    """The address of a gateway that wants a key, with 40 documents."""
    async with real_stack(tmp_path, keys_file=keys.file, auth="on") as stack:
        stack.client.headers.update(bearing(keys.secrets["all"]))
        await stack.load()
        async with on_a_port(stack.gateway) as address:
            yield address


async def run(tools: Path, folder: Path, command: str, *arguments: str, **environment: str) -> str:
    process = await asyncio.create_subprocess_exec(
        tools / command,
        *arguments,
        cwd=folder,
        env={"PATH": f"{tools}:{os.defpath}", "HOME": str(folder), **environment},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    return output


async def test_whatever_is_sent_the_answer_is_declared_and_no_server_error(
    tools: Path, gateway: str, keys: Keys, tmp_path: Path
) -> None:
    output = await run(
        tools,
        tmp_path,
        "schemathesis",
        *("run", f"{gateway}/openapi.json", "--checks", ",".join(CHECKS), "--seed", "1"),
        *("--phases", "examples,fuzzing", "--max-examples", "3", "--warnings", "off"),
        # A deadline of a millisecond is a 504.
        *("--header", "X-Deadline-Ms: 30000", "--header", f"Authorization: Bearer {keys.secrets['all']}"),
    )
    assert "Tested: 22" in output


async def test_a_generated_client_loads_and_searches(tools: Path, gateway: str, keys: Keys, tmp_path: Path) -> None:
    key = keys.secrets["all"]
    async with httpx.AsyncClient(base_url=gateway, headers=bearing(key)) as http:
        (tmp_path / "openapi.json").write_bytes((await http.get("/openapi.json")).content)
    await run(tools, tmp_path, "openapi-python-client", "generate", "--path", "openapi.json", "--output-path", "made")
    path = str(tmp_path / "made")
    output = await run(tools, tmp_path, "python", "-c", USED, GATEWAY=gateway, KEY=key, PYTHONPATH=path)
    assert output.strip() == "['kettle'] 404 urn:problem:unknown-collection"
