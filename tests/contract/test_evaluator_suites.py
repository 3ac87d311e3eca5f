"""Experiments over several datasets: a run for each, and a mean that never stands alone."""

import json
import shutil
import statistics
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.datasets.catalogue import load_catalogue
from evaluator.report.history import history
from evaluator.report.run_report import Report
from evaluator.report.suite_runs import SuiteSummary
from services.chassis.errors import Unavailable
from tests.support.gateway_stub import GatewayStub, write_shop
from tests.support.served import served
from tests.support.small_runs import Evaluator

# The judgments of the second set differ, so that its figures do.
OTHER_QRELS = "q1\td1\t1\nq2\td1\t1\nq3\td2\t1\n"


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two sets of one corpus and an experiment over both."""
    place = tmp_path / "work"
    write_shop(place / "shop")
    shutil.copytree(place / "shop", place / "Bazaar")
    (place / "Bazaar" / "qrels" / "test.tsv").write_text(OTHER_QRELS)
    write_experiment(place, "datasets: [shop, Bazaar]")
    monkeypatch.chdir(place)
    return place


def write_experiment(place: Path, datasets: str) -> None:
    (place / "both.yaml").write_text(
        f"name: both\n{datasets}\npipelines: [bm25, dense]\nwarmup: 0\nrecall_queries: 0\n"
    )


@pytest.fixture
def evaluator(stub: GatewayStub, workplace: Path) -> Evaluator:
    def call(*words: str) -> Result:
        with served(stub.app) as url:
            return CliRunner().invoke(app, words, env={"GATEWAY_URL": url, "EVALUATOR_RUNS": "runs"})

    return call


def table(output: str) -> dict[str, list[str]]:
    """Returns the last table's rows by their first cell."""
    lines = output[output.rindex("| nDCG@10") :].splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("|")]
    return {first: rest for first, *rest in rows}


def test_each_set_has_its_table_and_the_mean_stands_below_the_sets(evaluator: Evaluator, workplace: Path) -> None:
    done = evaluator("run", "both.yaml")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("| pipeline ") == 2
    found = table(done.stdout)
    assert list(found)[2:] == ["shop", "bazaar", "mean of 2 sets"]
    reports = [json.loads((workplace / f"runs/latest/{name}/report.json").read_text()) for name in ("shop", "bazaar")]
    figures = [report["pipelines"]["bm25"]["quality"]["nDCG@10"] for report in reports]
    assert figures[0] != figures[1]
    assert found["mean of 2 sets"][0] == f"{statistics.fmean(figures):.4f}"
    summary = SuiteSummary.model_validate_json((workplace / "runs/latest/summary.json").read_bytes())
    assert (summary.valid, summary.mean_of) == (True, ("shop", "bazaar"))
    page = (workplace / "runs/latest/summary.md").read_text()
    assert page.count("mean of 2 sets") == page.count("\n| shop ") == len(summary.mean["bm25"])


def test_a_suite_is_the_latest_run_and_its_sets_are_runs_as_any_other(evaluator: Evaluator, workplace: Path) -> None:
    evaluator("run", "both.yaml")
    latest = workplace / "runs" / "latest"
    assert {path.name for path in latest.iterdir()} == {"suite.json", "summary.json", "summary.md", "shop", "bazaar"}
    done = evaluator("export")
    assert done.exit_code == 1
    assert "holds several runs; name one of them with --run: bazaar, shop" in done.stderr
    run = latest / "bazaar"
    before = Report.model_validate_json((run / "report.json").read_bytes()).pipelines
    assert [evaluator(step, "--run", str(run)).exit_code for step in ("quality", "report")] == [0, 0]
    assert Report.model_validate_json((run / "report.json").read_bytes()).pipelines == before


def test_the_steps_one_by_one_end_where_run_ends(evaluator: Evaluator) -> None:
    done = [evaluator(*words.split()) for words in ("ingest both.yaml", "rank", "quality", "report")]
    assert [step.exit_code for step in done] == [0, 0, 0, 0], [step.output for step in done]
    assert table(done[-1].stdout) == table(evaluator("run", "both.yaml").stdout)


def test_an_interrupted_rank_goes_on_with_the_sets_that_are_left(
    evaluator: Evaluator, stub: GatewayStub, workplace: Path
) -> None:
    assert [evaluator(*words.split()).exit_code for words in ("ingest both.yaml", "rank")] == [0, 0]
    whole = {path: path.read_bytes() for path in (workplace / "runs" / "latest").glob("*/runs/*.trec")}
    answers = workplace / "runs" / "latest" / "shop" / "answers" / "bm25.jsonl"
    before = answers.read_bytes()
    (workplace / "runs" / "latest" / "bazaar" / "rank.json").unlink()  # what a kill at its last moment leaves
    stub.searches.clear()
    assert evaluator("rank").exit_code == 0
    assert 2 < len(stub.searches) < 20  # of one set alone
    assert answers.read_bytes() == before
    assert {path: path.read_bytes() for path in whole} == whole


def test_a_set_that_lost_queries_makes_the_whole_not_valid(
    evaluator: Evaluator, stub: GatewayStub, workplace: Path
) -> None:
    stub.failing_queries = {"saddle springs squeak": Unavailable("gone")}  # judged in the first set only
    done = evaluator("run", "both.yaml")
    assert done.exit_code == 3
    assert done.stderr.endswith("NOT ALL RUNS ARE VALID: shop\nExit status 3: the run of shop is not valid.\n")
    summary = SuiteSummary.model_validate_json((workplace / "runs/latest/summary.json").read_bytes())
    assert not summary.valid
    assert all(warning.startswith("shop: ") for warning in summary.warnings)


def test_cqadupstack_is_the_mean_of_its_forums_and_counts_once(evaluator: Evaluator, workplace: Path) -> None:
    forums = [part.name for part in load_catalogue().parts("cqadupstack")]
    for number, forum in enumerate(forums):
        shutil.copytree(workplace / ("shop" if number % 3 else "Bazaar"), workplace / ".datasets" / forum)
    write_experiment(workplace, "datasets: [cqadupstack, Bazaar]")
    done = evaluator("run", "both.yaml", "--pipelines", "bm25")
    assert done.exit_code == 0, done.output
    summary = SuiteSummary.model_validate_json((workplace / "runs/latest/summary.json").read_bytes())
    quality = {found.name: found.quality["bm25"]["nDCG@10"] for found in summary.sets}
    parts = [quality[forum.replace("/", "-")] for forum in forums]
    assert quality["cqadupstack"] == pytest.approx(statistics.fmean(part for part in parts if part is not None))
    assert summary.mean_of == ("cqadupstack", "bazaar")
    assert "cqadupstack (mean of 12)" in table(done.stdout)


def test_a_set_of_the_catalogue_is_found_by_its_name(evaluator: Evaluator, workplace: Path) -> None:
    shutil.copytree(workplace / "shop", workplace / ".datasets" / "msmarco")
    (workplace / ".datasets/msmarco/qrels/test.tsv").rename(workplace / ".datasets/msmarco/qrels/dev.tsv")
    done = evaluator("run", "both.yaml", "--dataset", "msmarco")
    assert done.exit_code == 0, done.output
    report = json.loads((workplace / "runs/latest/report.json").read_text())
    assert (report["dataset"], report["split"]) == ("msmarco", "dev")


@pytest.mark.parametrize(
    ("datasets", "told"),
    [
        ("datasets: [shop, shop]", "datasets: the same name twice"),
        ("datasets: [shop, nowhere]", "nowhere: neither a directory nor a name of the catalogue (`"),
        ("datasets: shop", "datasets: a list of directories or names of the catalogue is needed"),
        ("dataset: shop\ndatasets: [shop]", "give dataset or datasets, not both"),
        ("datasets: [shop, Bazaar]\ncollection: mine", "of several datasets, each gets its own"),
    ],
)
def test_datasets_that_cannot_be_run_are_refused_before_anything_begins(
    datasets: str, told: str, evaluator: Evaluator, workplace: Path
) -> None:
    write_experiment(workplace, datasets)
    done = evaluator("run", "both.yaml")
    assert done.exit_code == 1
    assert told in done.stderr
    assert not (workplace / "runs").exists()


def test_the_history_of_a_suite_lists_the_runs_of_each_set(evaluator: Evaluator) -> None:
    for _ in range(2):
        evaluator("run", "both.yaml")
    assert evaluator("history", "both.yaml").exit_code == 0
    listed = {
        (of.dataset, of.pipeline): [entry.measured.run.partition("/")[2] for entry in entries]
        for of, entries in history(Path("runs"), "both", "nDCG@10").pipelines.items()
    }
    assert listed == {
        (name, pipeline): [name.lower()] * 2 for name in ("shop", "Bazaar") for pipeline in ("bm25", "dense")
    }


def test_what_takes_one_dataset_refuses_several(evaluator: Evaluator) -> None:
    done = evaluator("run", "both.yaml", "--repeat", "2")
    assert done.exit_code == 1
    assert "has several datasets, where one is needed" in done.stderr
