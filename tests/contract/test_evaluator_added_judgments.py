"""Reports and comparisons say which judgments were merged over those of the dataset, and what that changed."""

import json
from pathlib import Path

import pytest

from evaluator.report.evaluation import quality_step
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.run_judgments import judgments_as_measured
from tests.support import evaluator_service
from tests.support.gateway_stub import GatewayStub
from tests.support.simulated_runs import write_collection, write_three_rankings
from tests.support.small_runs import Evaluator


@pytest.fixture
def run(tmp_path: Path, evaluator: Evaluator) -> Path:
    """A run of two pipelines over 60 queries: fair finds the relevant document below the first fillers, good above."""
    files = write_three_rankings(tmp_path)
    done = evaluator("import", write_collection(tmp_path / "shop"), files["fair"], files["good"])
    assert done.exit_code == 0, done.output
    return next((tmp_path / "runs").glob("2*"))


@pytest.fixture
def more(tmp_path: Path) -> Path:
    """Judgments that make the first filler of every query relevant, and change the grade of one document."""
    path = tmp_path / "more.qrels"
    path.write_text("".join(f"q{n}\t0\tf0\t1\n" for n in range(60)) + "q0\t0\tr0\t2\nq99\t0\tf0\t1\n")
    return path


def test_quality_and_report_say_what_added_judgments_changed(
    evaluator: Evaluator, run: Path, more: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, quality = json.loads((run / "report.json").read_text()), json.loads((run / "quality.json").read_text())
    assert before["added_judgments"] is None
    monkeypatch.chdir(more.parent)
    assert evaluator("quality", "--run", run, "--judgments", more.name).exit_code == 0
    monkeypatch.chdir("/")
    assert [file.file for file in judgments_as_measured(RunFolder(run)).origin.added] == [str(more)]
    shown = evaluator("report", "--run", run)
    assert "judged also by" in shown.stderr
    report = json.loads((run / "report.json").read_text())
    change = report["added_judgments"]
    (file,) = change["files"]
    assert (file["file"], file["added"], file["changed"], file["other_queries"]) == (str(more), 60, 1, 1)
    for name in ("fair", "good"):
        assert change["before"][name]["nDCG@10"] == before["pipelines"][name]["quality"]["nDCG@10"]
        assert change["after"][name]["nDCG@10"] == report["pipelines"][name]["quality"]["nDCG@10"]
        assert change["before"][name]["judged@10"] == pytest.approx(0.1)
        assert change["after"][name]["judged@10"] == pytest.approx(0.2)
    assert "## Added judgments" in (run / "report.md").read_text()
    # Without the option, figures are of the dataset alone again.
    assert evaluator("quality", "--run", run).exit_code == 0
    assert json.loads((run / "quality.json").read_text()) == quality


def test_compare_takes_added_judgments_and_says_so_first(evaluator: Evaluator, run: Path, more: Path) -> None:
    plain = json.loads(evaluator("compare", run, "--json").stdout)
    added = json.loads(evaluator("compare", run, "--judgments", more, "--json").stdout)
    assert plain["added_judgments"] == []
    assert added["added_judgments"][0]["added"] == 60
    assert added["notes"][0].startswith(f"judged also by {more} (sha256 ")
    assert added["pairs"][0]["verdict"]["first_mean"] != plain["pairs"][0]["verdict"]["first_mean"]


def test_compare_and_export_take_the_judgments_that_the_run_is_measured_by(
    evaluator: Evaluator, run: Path, more: Path
) -> None:
    evaluator("export", "--run", run)
    own = len((run / "export/judgments.qrels").read_text().splitlines())
    evaluator("quality", "--run", run, "--judgments", more)
    measured = json.loads((run / "quality.json").read_text())["arms"]
    (pair,) = json.loads(evaluator("compare", run, "--json").stdout)["pairs"]
    assert pair["verdict"]["first_mean"] == pytest.approx(measured[pair["verdict"]["first"]]["nDCG@10"])
    evaluator("export", "--run", run)
    assert len((run / "export/judgments.qrels").read_text().splitlines()) == own + 60


async def test_the_service_compares_by_the_judgments_that_the_runs_are_measured_by(
    evaluator: Evaluator, run: Path, more: Path, tmp_path: Path
) -> None:
    body = {"runs": [run.name], "examples": 0}
    async with evaluator_service.evaluator(GatewayStub(), run.parent) as client:
        plain = (await client.post("/v1/comparisons", json=body)).json()
        quality_step(RunFolder(run), added=[more])
        added = (await client.post("/v1/comparisons", json=body)).json()
        page = await client.get(f"/compare?runs={run.name}&examples=0")
    assert (len(plain["judgments"]["added"]), len(added["judgments"]["added"])) == (0, 1)
    measured = json.loads((run / "quality.json").read_text())["arms"]
    (pair,) = added["pairs"]
    means = {
        pair["verdict"]["first"]: pair["verdict"]["first_mean"],
        pair["verdict"]["second"]: pair["verdict"]["second_mean"],
    }
    assert means == {name: pytest.approx(figures["nDCG@10"]) for name, figures in measured.items()}
    for said in ("Judged by test.tsv of the dataset (sha256 ", f"judged also by {more} (sha256 "):
        assert said in page.text


async def test_the_service_compares_no_runs_that_are_measured_by_different_judgments(
    evaluator: Evaluator, run: Path, more: Path, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    evaluator("import", tmp_path / "shop", files["fair"], files["good"])
    other = next(path for path in run.parent.glob("2*") if path != run)
    quality_step(RunFolder(run), added=[more])
    async with evaluator_service.evaluator(GatewayStub(), run.parent) as client:
        refused = await client.post("/v1/comparisons", json={"runs": [run.name, other.name]})
        quality_step(RunFolder(other), added=[more])
        taken = await client.post("/v1/comparisons", json={"runs": [run.name, other.name]})
    assert refused.status_code == 409
    assert f"is measured by added judgments ({more.name}) and" in refused.json()["detail"]
    assert taken.status_code == 200
