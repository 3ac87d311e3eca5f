"""The adapters of the client package, in an environment of their own, over a gateway on a port."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.reranker.app import build_app as build_reranker
from services.reranker.settings import RerankerSettings
from tests.support.environments import environment
from tests.support.images import ROOT
from tests.support.keys import Keys, bearing
from tests.support.proxies import recording
from tests.support.real_stack import RealStack, numbered, real_stack
from tests.support.served import on_a_port, served

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

PACKAGES = (
    "haystack-ai==3.4.1",
    "langchain-core==1.8.3",
    "langchain-tests==1.1.9",
    "llama-index-core==0.14.25",
    "mcp==2.3.0",
    "pytest-asyncio>=1.2",
)

SAMOVAR: dict[str, object] = {
    "id": "own",
    "title": "Samovar",
    "text": "Boils water.",
    "metadata": {"title": "its title", "score": "its score", "id": "its id", "text": "its text"},
}
SUITES = Path(__file__).parent / "adapters"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the package, its extras, and the frameworks' own tests."""
    package = f"{ROOT / 'clients' / 'python'}[haystack,langchain,llama-index,mcp]"
    return environment(tmp_path_factory.mktemp("adapters"), package, *PACKAGES) / "python"


@pytest.fixture
async def stack(tmp_path: Path, keys: Keys) -> AsyncIterator[RealStack]:
    """A gateway that wants a key, with 40 documents and one whose metadata has the names of a hit's fields."""
    async with real_stack(tmp_path, keys_file=keys.file, auth="on") as opened:
        opened.client.headers.update(bearing(keys.secrets["all"]))
        await opened.load([*numbered(40), SAMOVAR])
        yield opened


@pytest.mark.parametrize(
    ("suite", "count"), [("langchain", 9), ("llama_index", 5), ("haystack", 5), ("mcp", 9), ("rag_langchain", 2)]
)
async def test_an_adapter_passes_its_tests(
    python: Path, stack: RealStack, keys: Keys, tmp_path: Path, suite: str, count: int
) -> None:
    shutil.copy(SUITES / f"{suite}_suite.py", tmp_path / "test_adapter.py")  # away from our conftest.py
    with served(build_reranker(RerankerSettings(scorer="overlap", keys_file=keys.file, auth="on"))) as reranker:
        async with on_a_port(stack.gateway) as gateway, recording() as proxy:
            process = await asyncio.create_subprocess_exec(
                *(str(python), "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-o", "asyncio_mode=auto"),
                *("-p", "no:cacheprovider", "test_adapter.py"),
                cwd=tmp_path,
                env={
                    "PATH": os.defpath,
                    "HOME": str(tmp_path),
                    "PYTHONPATH": str(ROOT / "docs" / "apps"),
                    "HAYSTACK_TELEMETRY_ENABLED": "False",
                    "HTTP_PROXY": proxy.url,
                    "http_proxy": proxy.url,
                    "GATEWAY": gateway,
                    "RERANKER": reranker,
                    "GATEWAY_API_KEY": keys.secrets["search"],
                },
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert f"{count} passed" in output
    assert proxy.heads == []
