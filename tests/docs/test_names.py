"""Checks that a name stands for one thing."""

import re
from collections import defaultdict

from tests.docs.test_documents import ROOT

FOLDERS = ("services", "gateway", "evaluator", "deploy", "workshop")


def test_a_class_name_is_used_once() -> None:
    places = defaultdict(list)
    for module in (module for folder in FOLDERS for module in (ROOT / folder).rglob("*.py")):
        for name in re.findall(r"^\s*class (\w+)", module.read_text(encoding="utf-8"), re.MULTILINE):
            places[name].append(str(module.relative_to(ROOT)))
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}
