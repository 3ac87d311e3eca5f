"""Commands over test collections: what lies where, what reading decided."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from tests.support.archives import SMALL_SET


def evaluator(*words: str) -> Result:
    return CliRunner().invoke(app, ["datasets", *words])


def rows(output: str) -> dict[str, list[str]]:
    """Returns the cells of every table row by its first cell."""
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if line.startswith("|")]
    return {cells[0]: cells[1:] for cells in lines}


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a small set under the name `scifact`."""
    folder = tmp_path / "work" / ".datasets" / "scifact"
    for name, content in SMALL_SET.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def test_list_says_of_every_set_where_it_lies() -> None:
    listed = rows(evaluator("list").stdout)
    assert listed["scifact"][-1] == ".datasets"
    assert listed["fever"][-1] == "to be fetched"
    assert listed["robust04"][-1] == "to be brought"
    assert listed["cqadupstack/tex"][:4] == ["68184", "2906", "1.8", "binary"]


def test_check_prints_every_decision_and_what_is_not_as_published() -> None:
    done = evaluator("check", "scifact")
    decided = rows(done.stdout)
    assert (decided["documents"], decided["judged queries"], decided["fields not read"]) == (
        ["2", ""],
        ["1", ""],
        ["0", ""],
    )
    assert "SciFact as it was published has 5183 documents and 300 judged queries." in done.stdout


def test_check_takes_a_directory_and_refuses_with_place_and_fault(workplace: Path) -> None:
    (workplace / ".datasets" / "scifact" / "qrels" / "test.tsv").write_text("q1\td1\t1\nq1\td2\t0.5\n")
    done = evaluator("check", ".datasets/scifact")
    assert done.exit_code == 1
    assert "test.tsv:2: the grade '0.5'" in done.stderr


def test_a_set_that_is_not_here_names_the_command_that_fetches_it() -> None:
    done = evaluator("check", "arguana")
    assert done.exit_code == 1
    assert "datasets fetch arguana` fetches it" in done.stderr


def test_fetch_prints_where_a_set_lies() -> None:
    assert evaluator("fetch", "scifact").stdout == ".datasets/scifact\n"
