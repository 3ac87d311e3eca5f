"""The README of load names every field of an experiment's `load`."""

import re
from pathlib import Path

from evaluator.experiments.load_plan import LoadPlan

README = Path(__file__).resolve().parents[2] / "evaluator" / "load" / "README.md"


def test_every_field_of_a_load_has_a_row_with_its_option() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:`--[a-z-]+`|–) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(LoadPlan.model_fields)
