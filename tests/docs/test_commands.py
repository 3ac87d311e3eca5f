"""Commands that are documented or printed work as they stand, in a shell that knows nothing of our environment."""

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import typer
from typer.core import TyperGroup

from evaluator.__main__ import app
from tests.docs.test_documents import DOCUMENTS, ROOT

# Where `python` is ours: inside our images.
IN_A_CONTAINER = re.compile(r"docker compose .* exec \w+ python -m \S+")
OF_AN_UNKNOWN_PYTHON = re.compile(r"(?<![/\w.])python3? -m \w[\w.]*")
EVALUATOR = re.compile(r"\.venv/bin/python -m evaluator ([^`#\n]+)")
CONTINUED = re.compile(r"\\\n\s*")
FOLDERS = ("services", "gateway", "evaluator", "deploy", "workshop", "clients")


def printed(module: Path) -> Iterator[str]:
    """Every string of a module that is not a docstring; none of a module without a command."""
    text = module.read_text(encoding="utf-8")
    if not OF_AN_UNKNOWN_PYTHON.search(text):
        return
    tree = ast.parse(text)
    documenting = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documenting:
            yield node.value


def test_a_documented_command_names_its_interpreter() -> None:
    said = {path: IN_A_CONTAINER.sub("", path.read_text(encoding="utf-8")) for path in DOCUMENTS}
    assert {path: found for path, text in said.items() if (found := OF_AN_UNKNOWN_PYTHON.findall(text))} == {}


def test_a_printed_command_names_its_interpreter() -> None:
    commands = {
        (str(module.relative_to(ROOT)), command)
        for folder in FOLDERS
        for module in (ROOT / folder).rglob("*.py")
        if module != ROOT / "deploy" / "image.py"  # is run by the image's own python
        for text in printed(module)
        for command in OF_AN_UNKNOWN_PYTHON.findall(text)
    }
    assert commands == set()


def test_a_documented_call_of_the_evaluator_is_one_that_it_understands() -> None:
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    texts = [CONTINUED.sub("", path.read_text(encoding="utf-8")) for path in DOCUMENTS]
    calls = {words.strip() for text in texts for words in EVALUATOR.findall(text)}
    assert calls
    for words in sorted(calls):
        name, *rest = shlex.split(words)
        group.commands[name].make_context(name, rest)


def test_a_python_without_our_environment_is_told_which_one_to_take() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "evaluator", "demo"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "run .venv/bin/python -m evaluator" in done.stderr
