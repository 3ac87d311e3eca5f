"""Checks that a name stands for one thing."""

import ast
from collections import defaultdict

from tests.docs.test_documents import ROOT

FOLDERS = ("services", "gateway", "evaluator", "deploy", "workshop")


def test_a_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for module in (module for folder in FOLDERS for module in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{module.relative_to(ROOT)}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
