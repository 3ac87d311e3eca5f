"""Reads the Dockerfile, the environments of its images and the imports of a deployable, for the tests of images."""

import ast
import importlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from pydantic import AliasChoices

from deploy.deployables import Deployable
from services.chassis.settings.service_settings import ServiceSettings

ROOT = Path(__file__).resolve().parents[2]
OURS = ("services", "gateway", "evaluator", "deploy", "clients")
# Where the names of modules begin.
PLACES = (ROOT, ROOT / "clients" / "python")
# Only for developers: training needs torch, the bench the libraries that it compares.
WORKSHOP = "workshop"
# What an undeclared dependency makes fail, in modules that only one setting loads too.
IMPORT_ALL = """
import importlib, sys
for module in sys.argv[1:]:
    importlib.import_module(module)
"""
# The type of a parsed YAML mapping: tests read formats here that have schemas of their own.
Yaml = dict[str, Any]


def versions() -> dict[str, str]:
    """Returns the pinned versions of deploy/versions.env."""
    lines = (ROOT / "deploy" / "versions.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction of a Dockerfile: its name (`CMD`) and its arguments."""

    name: str
    words: str


@cache
def stages() -> Mapping[str, tuple[Instruction, ...]]:
    """Returns the instructions of each stage by name, with FROM, without comments, continued lines joined."""
    text = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"\s*\\\n\s*", " ", text)
    found: dict[str, tuple[Instruction, ...]] = {}
    current = ""
    for line in filter(None, map(str.strip, text.splitlines())):
        name, words = line.split(maxsplit=1)
        if name == "FROM":
            current = words.split(" AS ")[1]
            found[current] = ()
        if current:
            found[current] += (Instruction(name, words),)
    return found


def build_context() -> tuple[list[str], list[str]]:
    """Returns the included and the excluded patterns of the ignore file, whose first rule excludes everything."""
    rules = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    first, *others = [rule for rule in rules if rule and not rule.startswith("#")]
    assert first == "*"
    seen = [rule.removeprefix("!") for rule in others if rule.startswith("!")]
    return seen, others[len(seen) :]


def stage(name: str) -> tuple[Instruction, ...]:
    """Returns the instructions of one stage."""
    return stages()[name]


def container_environment(name: str) -> dict[str, str]:
    """Returns the variables that ENV sets in a stage and in its base stages."""
    steps = stage(name)
    base = steps[0].words.split(" AS ")[0]
    environment = container_environment(base) if base in stages() else {}
    for step in steps:
        if step.name == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(step.words))
    return environment


def settings_class(deployable: Deployable) -> type[ServiceSettings]:
    """Returns the settings class of a deployable: the one in its settings.py with its prefix."""
    module = importlib.import_module(f"{deployable.module}.settings")
    (found,) = [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, ServiceSettings)
        and value.model_config.get("env_prefix") == deployable.prefix
    ]
    return found


def variables(deployable: Deployable) -> set[str]:
    """Returns the environment variables that a deployable reads; it ignores all others silently.

    Every secret may stand in a file too, which another variable names.
    """
    known = set[str]()
    for name, field in settings_class(deployable).model_fields.items():
        match field.validation_alias:
            case None:
                read = {f"{deployable.prefix}{name}".upper()}
            case AliasChoices() as choices:
                read = {str(choice) for choice in choices.choices}
            case alias:
                read = {str(alias)}
        known |= read
        if "SecretStr" in str(field.annotation):
            known |= {f"{variable}_FILE" for variable in read}
    return known


def settings_of(deployable: Deployable, environment: Mapping[str, str]) -> ServiceSettings:
    """Returns the settings of a process with this environment only."""
    with pytest.MonkeyPatch.context() as patch:
        for name in variables(deployable):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        return settings_class(deployable)()


def imported_files(deployable: Deployable) -> set[Path]:
    """Returns the project's files that a deployable needs: its modules and all that they import, also indirectly."""
    own = ROOT / deployable.module.replace(".", "/")
    waiting, reached = list(own.rglob("*.py")), set[Path]()
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += _imported_by(file)
    return reached


def imported_modules(deployable: Deployable) -> list[str]:
    """Returns the names of the project's modules that a deployable needs, but those that start a process."""
    files = [
        file.relative_to(PLACES[1] if file.is_relative_to(PLACES[1]) else ROOT).with_suffix("")
        for file in imported_files(deployable)
        if file.stem != "__main__"
    ]
    return sorted(".".join(file.parts).removesuffix(".__init__") for file in files)


def foreign_packages(name: str) -> set[str]:
    """Returns the distributions that the image of a deployable must not hold, as their metadata is named."""
    # Graphs are built and rewritten where models are fetched: no service has what that takes.
    foreign = {"pip", "uv", "setuptools", "pytest", "torch", "safetensors", "onnx", "ml_dtypes", "elasticsearch"}
    return foreign | {
        "lexical": {"onnxruntime", "tokenizers", "numpy", "qdrant_client"},
        "reranker": {"qdrant_client", "qdrant_edge_py", "ranx"},
        "gateway": {"qdrant_client", "qdrant_edge_py", "onnxruntime", "tokenizers", "numpy"},
        "evaluator": {"qdrant_client", "qdrant_edge_py", "onnxruntime", "tokenizers"},
    }.get(name, {"ranx"})


@cache
def _imported_by(file: Path) -> tuple[Path, ...]:
    """Returns the files of the project's modules that a file imports."""
    return tuple(found for name in _imported(file) if (found := _file_of(name)) is not None)


def _imported(file: Path) -> Iterator[str]:
    """Yields the names of the project's modules that a file imports, at any place in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from services.inference import fetch` names a module, `from services.dense.app import build_app` a value.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] in (*OURS, "retrieval_client", WORKSHOP))


def _file_of(module: str) -> Path | None:
    """Returns the file of a module; None if it is not one of the project."""
    path = module.replace(".", "/")
    for candidate in (place / name for place in PLACES for name in (f"{path}/__init__.py", f"{path}.py")):
        if candidate.is_file():
            return candidate
    return None
