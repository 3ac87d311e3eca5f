"""What tests of the images share: the Dockerfile as data, and a container's environment as its settings."""

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
from services.chassis.settings import ServiceSettings

ROOT = Path(__file__).resolve().parents[2]
OURS = ("services", "gateway", "evaluator", "deploy")
# For developers alone: training brings torch, the bench its peers.
WORKSHOP = "workshop"
# What a YAML parser gives: tests read foreign formats here, whose types are checked by their own schemas.
Yaml = dict[str, Any]


def versions() -> dict[str, str]:
    """The pinned versions of deploy/versions.env."""
    lines = (ROOT / "deploy" / "versions.env").read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a Dockerfile: `CMD` and what follows it."""

    name: str
    words: str


@cache
def stages() -> Mapping[str, tuple[Instruction, ...]]:
    """The Dockerfile's stages by name, FROM included, comments left out and continued lines joined."""
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
    """What a build may see of the checkout and what of that it may not, from an ignore file that begins with all."""
    rules = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    first, *others = [rule for rule in rules if rule and not rule.startswith("#")]
    assert first == "*"
    seen = [rule.removeprefix("!") for rule in others if rule.startswith("!")]
    return seen, others[len(seen) :]


def stage(name: str) -> tuple[Instruction, ...]:
    """The instructions of one stage."""
    return stages()[name]


def container_environment(name: str) -> dict[str, str]:
    """What ENV sets in a stage and in those that it is made from."""
    steps = stage(name)
    base = steps[0].words.split(" AS ")[0]
    environment = container_environment(base) if base in stages() else {}
    for step in steps:
        if step.name == "ENV":
            environment |= dict(pair.split("=", 1) for pair in shlex.split(step.words))
    return environment


def settings_class(deployable: Deployable) -> type[ServiceSettings]:
    """The settings of a deployable: the one class of its settings.py that reads its prefix."""
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
    """The environment variables that a deployable reads; any other one is ignored without a word."""
    known = set[str]()
    for name, field in settings_class(deployable).model_fields.items():
        match field.validation_alias:
            case None:
                known.add(f"{deployable.prefix}{name}".upper())
            case AliasChoices() as choices:
                known |= {str(choice) for choice in choices.choices}
            case alias:
                known.add(str(alias))
    return known


def settings_of(deployable: Deployable, environment: Mapping[str, str]) -> ServiceSettings:
    """The settings of a process that has this environment and no other."""
    with pytest.MonkeyPatch.context() as patch:
        for name in variables(deployable):
            patch.delenv(name, raising=False)
        for name, value in environment.items():
            patch.setenv(name, value)
        return settings_class(deployable)()


def reached_by(deployable: Deployable) -> set[Path]:
    """Every file of ours that the modules of a deployable import, directly or not, themselves included."""
    own = ROOT / deployable.module.replace(".", "/")
    waiting, reached = list(own.rglob("*.py")), set[Path]()
    while waiting:
        file = waiting.pop()
        if file not in reached:
            reached.add(file)
            waiting += [found for name in _imported(file) if (found := _file_of(name)) is not None]
    return reached


def _imported(file: Path) -> Iterator[str]:
    """The names of our modules that a file imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            # `from services.inference import fetch` names a module, `from services.dense.app import build_app` a value.
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name.split(".")[0] in (*OURS, WORKSHOP))


def _file_of(module: str) -> Path | None:
    """The file that makes a module; None for what is no module of ours."""
    for candidate in (ROOT / module.replace(".", "/") / "__init__.py", ROOT / (module.replace(".", "/") + ".py")):
        if candidate.is_file():
            return candidate
    return None
