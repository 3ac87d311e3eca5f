"""The client package as `make dist` builds it: in a clean environment it does what its README shows, over TLS."""

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.chassis.settings.service_settings import ServiceSettings
from services.contracts.version import VERSION
from services.keys.key import KEY_SCOPES
from tests.support.certificates import Certificates
from tests.support.environments import environment
from tests.support.images import ROOT
from tests.support.keys import Keys
from tests.support.real_stack import real_stack
from tests.support.served import on_a_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

ADDRESS = re.compile(r'Client\("(http://127\.0\.0\.1:8000|https://search\.example)"[^)]*\)')
# The pipeline that a search takes where it names none.
HYBRID = """
name: hybrid
stages:
  - kind: fuse
    inputs: [{kind: retrieve, backend: lexical}, {kind: retrieve, backend: dense}]
"""
ALL_MODULES = """
import importlib, pkgutil, sys
import retrieval_client
for module in pkgutil.iter_modules(retrieval_client.__path__):
    importlib.import_module(f"retrieval_client.{module.name}")
print({"services", "gateway", "evaluator"} & set(sys.modules), retrieval_client.__file__)
"""


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(["make", "-C", ROOT, "dist", f"OUT={folder}"], check=True)
    return folder


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def python(distributions: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The interpreter of an environment that holds one distribution and what it declares."""
    (built,) = distributions.glob(request.param)
    assert built.name.startswith(f"retrieval_client-{VERSION}")
    return environment(tmp_path_factory.mktemp("environment"), built) / "python"


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[str]:
    """How a client opens a gateway that speaks TLS and wants a key: its arguments, as Python."""
    certificates, keys = Certificates(tmp_path), Keys(tmp_path / "keys.json", {})
    keys.add("app", *KEY_SCOPES)
    (tmp_path / "pipelines").mkdir()
    (tmp_path / "pipelines" / "hybrid.yaml").write_text(HYBRID)
    async with real_stack(tmp_path, keys_file=keys.file, auth="on") as stack:
        settings = ServiceSettings(port=0, **certificates.issue().settings)
        async with on_a_port(stack.gateway, settings) as address:
            yield f"Client({address!r}, key={keys.secrets['app']!r}, ca_file={str(certificates.ca_file)!r})"


async def run(python: Path, folder: Path, script: str) -> str:
    command = [str(python), "-I", "-c", script]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    return output


async def test_no_module_needs_more_than_the_package_declares(python: Path, tmp_path: Path) -> None:
    output = await run(python, tmp_path, ALL_MODULES)
    assert output.startswith("set() ")
    assert "site-packages" in output


async def test_every_example_of_its_readme_runs_in_turn(python: Path, opened: str, tmp_path: Path) -> None:
    readme = (ROOT / "clients" / "python" / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    script, opens = ADDRESS.subn(lambda _: opened, "\n".join(blocks))
    assert (len(blocks), opens) == (5, 2)
    output = await run(python, tmp_path, script)
    assert output.split()[0] == "kettle"
    assert "unknown-collection 404 " in output
