"""A report of version 1 stays readable: by those who read it by the fields that it had first, and by us, if it is old.

`tests/golden/report_v1_fields.json` holds the fields of the version's first release and which of them were required.
"""

import functools
import json
from pathlib import Path
from typing import Any

import pytest

from evaluator.report.run_report import Report

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "report_v1_fields.json"
FIRST: dict[str, dict[str, list[str]]] = json.loads(GOLDEN.read_text())


@functools.cache
def model_schemas() -> dict[str, dict[str, Any]]:
    whole = Report.model_json_schema()
    return {"Report": whole, **whole["$defs"]}


@pytest.mark.parametrize("model", FIRST)
def test_no_field_of_the_first_release_is_gone(model: str) -> None:
    assert set(FIRST[model]["fields"]) <= set(model_schemas()[model]["properties"])


@pytest.mark.parametrize("model", FIRST)
def test_no_field_that_was_added_is_needed_to_read_a_report_of_the_first_release(model: str) -> None:
    assert set(model_schemas()[model].get("required", [])) <= set(FIRST[model]["required"])
