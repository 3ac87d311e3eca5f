"""A run's folder is read and written wherever it lies, and says in a sentence what is wrong with it."""

from pathlib import Path

import pytest

from evaluator.evaluation import quality_step
from evaluator.run_folder import RunFolder
from evaluator.run_import import import_runs
from tests.support.gateway_stub import write_shop

WHOLE = "q1 Q0 d1 1 9 x\nq2 Q0 d4 1 9 x\nq3 Q0 d1 1 9 x\nq4 Q0 d3 1 9 x\n"


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small shop and a run file of it, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.trec").write_text(WHOLE)
    return write_shop(tmp_path / "shop")


def imported() -> RunFolder:
    return import_runs(Path(".runs"), {"arm": Path("arm.trec")}, Path("shop"), split="test", name=None, depth=100)


def test_a_run_can_lie_in_a_relative_folder() -> None:
    folder = imported()
    assert quality_step(folder).arms["arm"]["MRR@10"] is not None
    assert folder.path.is_absolute()
