"""Settings of the evaluator's service: which folders it serves datasets from."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from evaluator.datasets.catalogue import load_catalogue
from evaluator.settings import EvaluatorSettings


def test_what_the_command_line_knows_by_name_is_served_unless_told_otherwise() -> None:
    served = EvaluatorSettings().datasets
    assert set(load_catalogue().directories) <= set(served)
    assert Path("evaluator/collections") in served


def test_folders_are_read_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATOR_DATASETS", '["/datasets", "mine"]')
    assert EvaluatorSettings().datasets == (Path("/datasets"), Path("mine"))
    monkeypatch.setenv("EVALUATOR_DATASETS", "[]")
    assert EvaluatorSettings().datasets == ()


def test_an_empty_name_does_not_serve_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVALUATOR_DATASETS", '["/datasets", ""]')
    with pytest.raises(ValidationError, match="empty"):
        EvaluatorSettings()
