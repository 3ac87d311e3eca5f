"""The list of a report's sections, and the fields of report.json that steps fill."""

from evaluator.report.report import Report
from evaluator.report.sections import STEPS


def test_a_step_fills_the_field_of_its_name_with_its_file() -> None:
    assert STEPS
    for step in STEPS:
        assert Report.model_fields[step.name].annotation == step.model | None
