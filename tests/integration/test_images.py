"""Each image, made by the steps of its Dockerfile in a clean directory, holds all that its process needs.

There is no container engine here: a directory stands for the image, an empty environment for the container.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.deployables import DEPLOYABLES, Deployable
from tests.support.images import (
    IMPORT_ALL,
    ROOT,
    build_context,
    container_environment,
    foreign_packages,
    imported_modules,
    stage,
    stages,
)

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


def context(name: str, folder: Path) -> Path:
    """A directory with what the COPY instructions of a stage, and of those it is made from, bring from the checkout."""
    base = stage(name)[0].words.split(" AS ")[0]
    if base in stages():
        context(base, folder)
    for copied in (step.words.split() for step in stage(name) if step.name == "COPY"):
        *sources, target = copied
        for source in build_context()[0] if sources == ["."] else sources:
            into = folder / target / source if sources == ["."] else folder / target
            if (ROOT / source).is_dir():
                shutil.copytree(ROOT / source, into, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
            else:
                into = into / Path(source).name if target.endswith("/") else into
                into.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / source, into)
    return folder


def step(name: str, folder: Path, *words: str) -> None:
    """Runs one step of deploy/image.py where its stage runs it: beside nothing but what was copied there."""
    with tempfile.TemporaryDirectory(prefix="stage-") as build:
        command = [sys.executable, "-m", "deploy.image", name, *words, str(folder)]
        subprocess.run(command, cwd=context(name, Path(build)), check=True)


@pytest.fixture(scope="module", params=[*DEPLOYABLES.values()], ids=[*DEPLOYABLES])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    deployable: Deployable = request.param
    root = tmp_path_factory.mktemp(deployable.name)
    for model in deployable.models:
        # Fetched before, or fetched again (some 90 MB): either way the step compares every sha256.
        if (ROOT / ".models" / model).is_dir():
            shutil.copytree(ROOT / ".models" / model, root / "models" / model)
    step("environment", root / "venv", deployable.name)
    step("models", root / "models", deployable.name)
    step("code", root / "app", deployable.name)
    (root / "data").mkdir()
    yield Image(deployable, root)
    shutil.rmtree(root)


@pytest.fixture
def port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        chosen: int = listening.getsockname()[1]
        return chosen


def probe(image: Image, path: str, port: int) -> bool:
    command = [str(image.python), str(image.root / "app" / "deploy" / "probe.py"), path]
    return subprocess.run(command, env={"PROBE_PORT": str(port)}, capture_output=True, check=False).returncode == 0


def test_every_module_finds_what_it_imports(image: Image, port: int) -> None:
    done = subprocess.run(
        [image.python, "-c", IMPORT_ALL, *imported_modules(image.deployable)],
        cwd=image.root / "app",
        env=image.environment(port),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_tool_and_no_package_of_another_deployable_is_installed(image: Image) -> None:
    (packages,) = (image.root / "venv" / "lib").glob("python3.*/site-packages")
    installed = {path.name.split("-")[0].lower() for path in packages.glob("*.dist-info")}
    assert installed & foreign_packages(image.deployable.name) == set()


def test_it_starts_is_alive_ends_politely_and_writes_nothing_beside_its_data(image: Image, port: int) -> None:
    before = image.files()
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
