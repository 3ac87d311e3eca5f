"""`--baseline`: the pipeline that the others are set against is the same for a run, its report and a comparison."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.experiments.preference import Preference
from evaluator.report.report_step import ReportChoices, choices_of
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import write_shop
from tests.support.simulated_runs import write_collection, write_three_rankings
from tests.support.small_runs import Evaluator


@pytest.fixture
def evaluator(gateway: str, tmp_path: Path) -> Evaluator:
    write_shop(tmp_path / "store")
    environment = {"GATEWAY_URL": gateway, "EVALUATOR_RUNS": str(tmp_path / "runs"), "DATASET": str(tmp_path / "store")}
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env=environment)


@pytest.fixture
def run(evaluator: Evaluator, tmp_path: Path) -> Path:
    """A run of the pipelines fair, good and bad."""
    files = write_three_rankings(tmp_path)
    evaluator("import", write_collection(tmp_path / "shop"), files["fair"], files["good"], files["bad"])
    (run,) = (tmp_path / "runs").glob("2*")
    return run


def against(run: Path) -> tuple[str | None, dict[str, str | None]]:
    """Returns the baseline of a report, and by pipeline what it is set against."""
    report = RunFolder(run).read("report.json", Report)
    found = {name: one.against_first for name, one in report.pipelines.items()}
    return report.baseline, {name: None if one is None else one.first for name, one in found.items()}


def test_a_run_keeps_the_baseline_that_it_was_started_with(evaluator: Evaluator, tmp_path: Path) -> None:
    done = evaluator("demo", "--pipelines", "bm25,dense", "--baseline", "dense")
    assert done.exit_code == 0, done.output
    run = (tmp_path / "runs" / "latest").resolve()
    assert against(run) == ("dense", {"bm25": "dense", "dense": None})
    assert evaluator("report", "--run", run).exit_code == 0
    assert against(run)[0] == "dense"
    (pair,) = json.loads(evaluator("compare", run, "--json").stdout)["pairs"]
    assert (pair["verdict"]["first"], pair["verdict"]["second"]) == ("dense", "bm25")


def test_an_unknown_baseline_is_refused_before_anything_is_done(evaluator: Evaluator, tmp_path: Path) -> None:
    refused = evaluator("demo", "--pipelines", "bm25,dense", "--baseline", "hybrid")
    assert (refused.exit_code, "--baseline hybrid" in refused.stderr) == (2, True), refused.output
    assert not list((tmp_path / "runs").glob("2*"))


def test_a_report_is_written_against_another_baseline(evaluator: Evaluator, run: Path) -> None:
    assert against(run) == ("fair", {"fair": None, "good": "fair", "bad": "fair"})
    done = evaluator("report", "--run", run, "--baseline", "bad")
    assert done.exit_code == 0, done.output
    assert against(run) == ("bad", {"fair": "bad", "good": "bad", "bad": None})
    assert "good is better than bad" in done.stdout
    assert "Differences from bad, query by query" in (run / "report.html").read_text()
    refused = evaluator("report", "--run", run, "--baseline", "worse")
    assert (refused.exit_code, "--baseline worse" in refused.stderr) == (2, True)


def test_a_comparison_sets_the_other_pipelines_or_the_other_runs_against_the_baseline(
    evaluator: Evaluator, run: Path, tmp_path: Path
) -> None:
    def pairs(*words: object) -> list[tuple[str, str]]:
        done = evaluator("compare", *words, "--json")
        assert done.exit_code == 0, done.output
        return [(one["verdict"]["first"], one["verdict"]["second"]) for one in json.loads(done.stdout)["pairs"]]

    assert pairs(run, "--baseline", "good") == [("good", "fair"), ("good", "bad")]
    assert pairs(run, f"other={tmp_path / 'bad.trec'}", "--baseline", "good") == [("good", "other")]
    refused = evaluator("compare", f"{run}:fair", tmp_path / "bad.trec", "--baseline", "good")
    assert (refused.exit_code, "--baseline good" in refused.stderr) == (2, True)


def test_what_was_asked_of_a_report_is_known_when_its_quality_is_measured_again(
    evaluator: Evaluator, run: Path
) -> None:
    evaluator("report", "--run", run, "--baseline", "bad")
    evaluator("quality", "--run", run, "--metrics", "MRR@10")  # report.json is stale
    assert choices_of(RunFolder(run)) == ReportChoices("bad", Preference())
    (run / "report.json").unlink()
    assert choices_of(RunFolder(run)) == ReportChoices()
