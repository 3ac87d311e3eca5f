"""The example queries of a report: of which pair, gains and a loss, with texts; a report without its dataset."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.simulated_runs import ranked_by, write_collection, write_rankings, write_three_rankings

Evaluator = Callable[..., Result]


@pytest.fixture
def evaluator(tmp_path: Path) -> Evaluator:
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env={"EVALUATOR_RUNS": str(tmp_path / "runs")})


def imported(evaluator: Evaluator, tmp_path: Path, *files: Path) -> RunFolder:
    done = evaluator("import", write_collection(tmp_path / "shop"), *files)
    assert done.exit_code == 0, done.output
    (run,) = (tmp_path / "runs").glob("2*")
    return RunFolder(run)


def report_of(folder: RunFolder) -> Report:
    return folder.read("report.json", Report)


def test_three_queries_show_how_the_recommended_pipeline_differs_from_the_baseline(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    folder = imported(evaluator, tmp_path, files["fair"], files["good"], files["bad"])
    found = report_of(folder).examples
    assert found is not None
    assert (found.first, found.second, found.metric, len(found.examples)) == ("fair", "good", "nDCG@10", 3)
    for example in found.examples:
        assert example.text == f"question {example.query[1:]}"
        assert example.documents[0].title == f"Answer {example.query[1:]}"
        assert example.difference > 0
    page = (folder.path / "report.md").read_text()
    assert page.index("| pipeline") < page.index("## Example queries") < page.index(found.examples[0].text)


def test_where_the_baseline_is_recommended_the_best_of_the_others_is_shown(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    found = report_of(imported(evaluator, tmp_path, files["good"], files["bad"], files["fair"])).examples
    assert found is not None
    assert (found.first, found.second) == ("good", "fair")
    assert all(example.difference < 0 for example in found.examples)


def test_a_loss_is_among_them_where_there_is_one(evaluator: Evaluator, tmp_path: Path) -> None:
    fair = write_rankings(tmp_path / "fair.trec", ranked_by(lambda n: 3))
    good = write_rankings(tmp_path / "good.trec", ranked_by(lambda n: 9 if n == 7 else 1))
    found = report_of(imported(evaluator, tmp_path, fair, good)).examples
    assert found is not None
    assert [example.difference > 0 for example in found.examples] == [True, True, False]
    assert found.examples[-1].query == "q7"


def test_pipelines_that_differ_on_no_query_have_no_examples(evaluator: Evaluator, tmp_path: Path) -> None:
    files = [write_rankings(tmp_path / f"{name}.trec", ranked_by(lambda n: 3)) for name in ("one", "two")]
    folder = imported(evaluator, tmp_path, *files)
    assert (report_of(folder).examples, report_of(folder).examples_reason) == (None, None)
    assert "Example queries" not in (folder.path / "report.md").read_text()


def test_a_report_whose_dataset_is_gone_is_written_and_names_the_reason(evaluator: Evaluator, tmp_path: Path) -> None:
    files = write_three_rankings(tmp_path)
    folder = imported(evaluator, tmp_path, files["fair"], files["good"])
    (tmp_path / "shop").rename(tmp_path / "elsewhere")
    done = evaluator("report", "--run", folder.path)
    assert done.exit_code == 0, done.output
    report = report_of(folder)
    assert (report.examples, report.recommendation is not None) == (None, True)
    assert report.examples_reason is not None
    assert f"None, because {report.examples_reason}" in (folder.path / "report.md").read_text()
