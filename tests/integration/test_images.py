"""The environment and the code of each image, made by deploy/image.py, hold all that its process needs.

There is no container engine here: a directory stands for the image, an empty environment for the container. Whether the
Dockerfile copies what these steps need is for `make test-images`.
"""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.deployables import DEPLOYABLES, Deployable
from deploy.image import copy_code, make_environment
from tests.support.images import IMPORT_ALL, container_environment, foreign_packages, imported_modules
from tests.support.models import fetched
from tests.support.processes import free_port

pytestmark = [pytest.mark.images, pytest.mark.timeout(900)]

STARTED_WITHIN_S = 120.0


@dataclass(frozen=True)
class Image:
    """A directory with what an image has at its root: venv/, models/, app/ and data/."""

    deployable: Deployable
    root: Path

    @property
    def python(self) -> Path:
        return self.root / "venv" / "bin" / "python"

    def environment(self, port: int) -> dict[str, str]:
        """The ENV of the image, its paths under our root, on a port of our own; and nothing else."""
        env = {}
        for name, value in container_environment(self.deployable.name).items():
            for place in ("/venv", "/models", "/data", "/app"):
                value = value.replace(f"{place}/", f"{self.root}{place}/") if value != place else f"{self.root}{place}"
            env[name] = value
        prefix = self.deployable.prefix
        env |= {f"{prefix}PORT": str(port), f"{prefix}HOST": "127.0.0.1", "PROBE_PORT": str(port)}
        return env | {"PATH": f"{self.root}/venv/bin:{os.defpath}", "HOME": str(self.root / "data")}

    def files(self) -> set[Path]:
        """What a read-only root file system holds: all but data/."""
        return {p for folder in ("venv", "models", "app") for p in (self.root / folder).rglob("*")}


@pytest.fixture(scope="module", params=[*DEPLOYABLES.values()], ids=[*DEPLOYABLES])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    deployable: Deployable = request.param
    root = tmp_path_factory.mktemp(deployable.name)
    (root / "models").mkdir()
    for model in deployable.models:
        (root / "models" / model).symlink_to(fetched(model))
    make_environment(deployable, "cpu", root / "venv")
    copy_code(deployable, root / "app")
    (root / "data").mkdir()
    yield Image(deployable, root)
    shutil.rmtree(root)


def probe(image: Image, path: str, port: int) -> bool:
    command = [str(image.python), str(image.root / "app" / "deploy" / "probe.py"), path]
    return subprocess.run(command, env={"PROBE_PORT": str(port)}, capture_output=True, check=False).returncode == 0


def test_every_module_finds_what_it_imports(image: Image) -> None:
    done = subprocess.run(
        [image.python, "-c", IMPORT_ALL, *imported_modules(image.deployable)],
        cwd=image.root / "app",
        env=image.environment(free_port()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_tool_and_no_package_of_another_deployable_is_installed(image: Image) -> None:
    (packages,) = (image.root / "venv" / "lib").glob("python3.*/site-packages")
    installed = {path.name.split("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert installed & foreign_packages(image.deployable.name) == set()


def test_it_starts_is_alive_ends_politely_and_writes_nothing_beside_its_data(image: Image) -> None:
    before, port = image.files(), free_port()
    command = [str(image.python), *image.deployable.command[1:]]
    log = image.root / "data" / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=image.root / "app", env=image.environment(port), stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + STARTED_WITHIN_S
        while not probe(image, "/livez", port):
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        # With the embedded engines nothing is missing but, for the two that call others, those others.
        assert probe(image, "/readyz", port) or image.deployable.name in {"gateway", "evaluator"}, log.read_text()
    finally:
        process.terminate()
        status = process.wait(timeout=60)
    # uvicorn, once all is closed, passes on the signal that ended it.
    assert status in (0, -signal.SIGTERM), log.read_text()
    assert "all that was opened is closed" in log.read_text()
    assert image.files() == before
