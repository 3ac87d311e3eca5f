"""A run's folder is read and written wherever it lies, and says in a sentence what is wrong with it."""

import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.commands.exchange import export_run
from evaluator.datasets.reader import DatasetRecord
from evaluator.errors import EvaluationError, command_line
from evaluator.experiments.experiment import Experiment
from evaluator.report.evaluation import quality_step
from evaluator.runs.answers import read_answers
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import Jobs
from evaluator.service.served_files import MessagePaths, ServedDatasets
from evaluator.steps.prepared_run import dataset_of
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import import_runs
from services.contracts.base import Wire
from tests.support.gateway_stub import write_shop
from tests.support.later_release import add_later_fields

WHOLE = "q1 Q0 d1 1 9 x\nq2 Q0 d4 1 9 x\nq3 Q0 d1 1 9 x\nq4 Q0 d3 1 9 x\n"
RECORDS: dict[str, type[Wire]] = {
    "experiment.json": Experiment,
    "manifest.json": Manifest,
    "rank.json": RankReport,
    "dataset.json": DatasetRecord,
}


@pytest.fixture(autouse=True)
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The small shop and a run file of it, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.trec").write_text(WHOLE)
    return write_shop(tmp_path / "shop")


def imported() -> RunFolder:
    return import_runs(Path(".runs"), {"arm": Path("arm.trec")}, Path("shop"), split="test", name=None, depth=100)


def test_a_folder_in_the_place_of_a_file_is_said_in_a_sentence() -> None:
    folder = imported()
    (folder.path / "rank.json").unlink()
    (folder.path / "rank.json").mkdir()
    with pytest.raises(EvaluationError, match=r"rank\.json: "):
        quality_step(folder)


@pytest.mark.parametrize("words", [("report", "--run"), ("quality", "--run"), ("compare",)])
def test_a_folder_that_holds_a_load_alone_names_the_command_that_ranks(words: tuple[str, ...]) -> None:
    folder = RunFolder.create(Path(".runs"), imported().experiment)
    (folder.path / "load.json").write_text("{}")
    done = CliRunner().invoke(app, [*words, str(folder.path)])
    assert done.exit_code == 1
    assert done.stderr == (
        f"evaluator: {folder.path}: has a load (load.json), but no ranking of the queries; "
        f"`{command_line('run', str(folder.path / 'experiment.json'))}` ranks them in a run of its own\n"
    )


def test_a_folder_in_the_place_of_a_state_is_no_state() -> None:
    folder = imported()
    (folder.path / "state.json").mkdir()
    state = Jobs(Path(".runs"), "http://gateway", ServedDatasets([]), MessagePaths([])).state(folder.path.name)
    assert state is not None
    assert state.state == "interrupted"


def test_damaged_files_of_an_imported_run_are_to_be_imported_again() -> None:
    folder = imported()
    shutil.rmtree(folder.path / "answers")
    with pytest.raises(EvaluationError, match=r"answers/arm\.jsonl .*evaluator import shop FILE"):
        quality_step(folder)


def test_a_query_that_rank_json_alone_knows_is_named_at_export() -> None:
    folder = imported()
    file = folder.path / "rank.json"
    file.write_text(file.read_text().replace('"q2"', '"q99"'))
    with pytest.raises(EvaluationError, match=r"rank\.json: .*'q99'"):
        export_run(folder, Path("out"))


def test_the_records_of_a_later_release_are_read() -> None:
    folder = imported()
    dataset_of(folder)  # writes dataset.json
    before = {name: folder.read(name, model) for name, model in RECORDS.items()}
    answers = list(read_answers(folder.answers("arm")))
    add_later_fields(folder.path)
    for name, model in RECORDS.items():
        found = folder.read(name, model)
        assert found.model_dump(exclude={"made_from"}) == before[name].model_dump(exclude={"made_from"}), name
    assert list(read_answers(folder.answers("arm"))) == answers
    dataset_of(folder)
    assert "of_a_later_release" in (folder.path / "dataset.json").read_text()
    assert export_run(folder, Path("out"))


@pytest.mark.parametrize("odd", ["\x01", "\u202e", "\ufffe"])
def test_a_dataset_directory_of_any_name_gives_pages_and_charts_that_can_be_read(shop: Path, odd: str) -> None:
    shop.rename(f"sh{odd}op")
    folder = import_runs(
        Path(".runs"), {"arm": Path("arm.trec")}, Path(f"sh{odd}op"), split="test", name=None, depth=10
    )
    quality_step(folder)
    for words in (["report", "--run", str(folder.path)], ["analyse", str(folder.path), "--baseline", "arm"]):
        printed = CliRunner().invoke(app, words, catch_exceptions=False)
        assert printed.exit_code == 0
        assert odd not in printed.output
    written = [path for path in Path(".runs").rglob("*") if path.suffix in {".svg", ".md", ".html", ".tex", ".csv"}]
    assert written
    for path in written:
        assert odd not in path.read_text(encoding="utf-8"), path
        if path.suffix == ".svg":
            ElementTree.fromstring(path.read_text(encoding="utf-8"))


def test_a_dataset_directory_whose_name_is_not_utf8_is_printed(shop: Path) -> None:
    shop.rename("sh\udce9op")
    printed = CliRunner().invoke(app, ["datasets", "check", "sh\udce9op"], catch_exceptions=False)
    assert (printed.exit_code, "sh\\udce9op, split test" in printed.output) == (0, True)
