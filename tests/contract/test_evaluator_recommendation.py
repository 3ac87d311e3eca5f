"""What a run recommends: on the console, in report.json and on the page; by which rule; and when nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from evaluator.__main__ import app
from evaluator.machine.process_costs import PipelineCost
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import RankedRun, read_ranked_run
from evaluator.report.recommendation import NO_BOUNDS, Bounds, Recommendation, recommend
from evaluator.report.run_report import Report
from evaluator.runs.latency import summarise
from evaluator.runs.run_folder import RunFolder
from tests.support.simulated_runs import ranked_by, write_collection, write_rankings, write_three_rankings

Evaluator = Callable[..., Result]


@pytest.fixture
def evaluator(tmp_path: Path) -> Evaluator:
    return lambda *words: CliRunner().invoke(app, [*map(str, words)], env={"EVALUATOR_RUNS": str(tmp_path / "runs")})


@pytest.fixture
def alike(tmp_path: Path) -> list[Path]:
    """Two rankings of which each is better on half of the queries, the first one a little more; and a bad one."""
    one = ranked_by(lambda n: 1 if n % 2 else 3)
    other = ranked_by(lambda n: 2 if n == 58 else 3 if n % 2 else 1)
    bad = ranked_by(lambda n: 9)
    return [write_rankings(tmp_path / f"{name}.trec", by) for name, by in (("one", one), ("two", other), ("bad", bad))]


def reported(evaluator: Evaluator, tmp_path: Path, files: list[Path]) -> tuple[RankedRun, Report, str]:
    done = evaluator("import", write_collection(tmp_path / "shop"), *files)
    (run,) = (tmp_path / "runs").glob("2*")
    report = Report.model_validate_json((run / "report.json").read_text())
    return read_ranked_run(RunFolder(run)), report, done.stdout


def test_the_best_pipeline_is_recommended_alone_where_the_queries_tell_it_from_all(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    _, report, shown = reported(evaluator, tmp_path, [files["fair"], files["good"], files["bad"]])
    found = report.recommendation
    assert found is not None
    assert (found.pipeline, found.contenders, found.chosen_by) == ("good", ("good",), None)
    assert found.text in shown
    assert found.text in (next((tmp_path / "runs").glob("2*")) / "report.md").read_text()
    assert "was not measured" in found.text
    assert all(f"{name} (" in found.text for name in ("fair", "bad"))  # why they are out


def test_of_those_that_cannot_be_told_from_the_best_the_cheapest_is_recommended(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    run, report, _ = reported(evaluator, tmp_path, alike)
    best = max(report.pipelines, key=lambda name: report.pipelines[name].quality["nDCG@10"] or 0)
    other = {"one": "two", "two": "one"}[best]
    found = report.recommendation
    assert found is not None
    assert (found.pipeline, set(found.contenders), found.chosen_by) == (best, {"one", "two"}, "quality")
    assert f"Not known: whether it is better than {other}; about " in found.text
    assert "more judged queries would tell" in found.text

    def chosen(pipelines: dict[str, PipelineReport], bounds: Bounds = NO_BOUNDS) -> Recommendation:
        found = recommend(pipelines, run.figures, run.ranked.depth, run.experiment.seed, bounds)
        assert found is not None
        return found

    by_cpu = {name: with_cpu(one, 5.0 if name == best else 2.0) for name, one in report.pipelines.items()}
    assert (chosen(by_cpu).pipeline, chosen(by_cpu).chosen_by) == (other, "cpu")
    assert f"whether {best}" in chosen(by_cpu).text
    first = next(iter(report.pipelines))
    told, outcome = (other, "worse") if best == first else (best, "better")
    verdict = by_cpu[told].against_first
    assert verdict is not None
    changed = {"against_first": verdict.model_copy(update={"outcome": outcome})}
    shown = chosen(by_cpu | {told: by_cpu[told].model_copy(update=changed)})
    assert (shown.pipeline, shown.contenders) == (best, (best,))  # no sentence beside it names a better one
    by_time = {name: with_times(one, name == best, valid=True) for name, one in by_cpu.items()}
    assert (chosen(by_time).pipeline, chosen(by_time).chosen_by) == (best, "p95")
    doubtful = {name: with_times(one, name == best, valid=False) for name, one in report.pipelines.items()}
    assert (chosen(doubtful).chosen_by, "?" in chosen(doubtful).text) == ("quality", True)  # times decide nothing

    bounded = chosen(by_time, Bounds(cpu_ms=2.0))
    assert (bounded.pipeline, bounded.contenders, bounded.cpu_within_ms) == (other, (other,), 2.0)
    assert chosen(by_time, Bounds(p95_ms=0.5)).pipeline is None
    assert chosen(by_time, Bounds(p95_ms=1.0, cpu_ms=5.0)).pipeline == best
    roomy = chosen(by_cpu, Bounds(cpu_ms=100.0))  # excludes none, and asks for the best that it allows
    assert (roomy.pipeline, set(roomy.contenders), roomy.chosen_by) == (best, {"one", "two"}, "bound")


def test_where_the_queries_tell_no_pipeline_from_another_nothing_is_shipped(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    run, report, _ = reported(evaluator, tmp_path, alike[:2])
    best = max(report.pipelines, key=lambda name: report.pipelines[name].quality["nDCG@10"] or 0)
    cheap = {name: with_cpu(one, 5.0 if name == best else 2.0) for name, one in report.pipelines.items()}
    found = recommend(cheap, run.figures, run.ranked.depth, run.experiment.seed)
    assert found is not None
    assert (found.pipeline, set(found.contenders), found.chosen_by) == (None, {"one", "two"}, None)
    assert f"{best} has the highest nDCG@10" in found.text
    assert f"would tell {best} from " in found.text
    bounded = recommend(cheap, run.figures, run.ranked.depth, run.experiment.seed, Bounds(cpu_ms=10.0))
    assert bounded is not None
    assert bounded.pipeline == best  # who sets a bound has decided what may be spent


def test_a_baseline_that_its_verdict_does_not_tell_from_the_best_contends(evaluator: Evaluator, tmp_path: Path) -> None:
    files = write_three_rankings(tmp_path)
    run, report, _ = reported(evaluator, tmp_path, [files["fair"], files["good"], files["bad"]])
    verdict = report.pipelines["good"].against_first
    assert verdict is not None
    told = {"against_first": verdict.model_copy(update={"outcome": "cannot tell"})}
    changed = report.pipelines | {"good": report.pipelines["good"].model_copy(update=told)}
    found = recommend(changed, run.figures, run.ranked.depth, run.experiment.seed)
    assert found is not None
    assert found.contenders == ("fair", "good")


def test_a_bound_of_what_a_run_does_not_know_is_refused(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    reported(evaluator, tmp_path, alike)
    (run,) = (tmp_path / "runs").glob("2*")
    for option, most in (("--p95", "100"), ("--cpu", "100"), ("--p95", "nan")):
        refused = evaluator("report", "--run", run, option, most)
        assert (refused.exit_code, option in refused.stderr) == (2, True), refused.output


def test_nothing_is_recommended_of_one_pipeline_or_of_a_run_that_is_not_valid(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    _, alone, shown = reported(evaluator, tmp_path, [files["good"]])
    assert (alone.recommendation, "Ship" in shown) == (None, False)
    bounded = evaluator("report", "--run", next((tmp_path / "runs").glob("2*")), "--p95", "5")
    assert (bounded.exit_code, "--p95" in bounded.stderr) == (2, True)
    short = write_rankings(tmp_path / "short.trec", dict.fromkeys(range(40), 1))
    done = evaluator("import", tmp_path / "shop", files["good"], short)
    reports = [json.loads(path.read_text()) for path in (tmp_path / "runs").glob("2*/report.json")]
    lossy = next(one for one in reports if len(one["pipelines"]) == 2)
    assert (lossy["valid"], lossy["recommendation"], "Ship" in done.stdout) == (False, None, False)


def with_cpu(outcome: PipelineReport, cpu_ms: float) -> PipelineReport:
    cost = PipelineCost(queries=60, lost=0, seconds=1.0, cpu_ms=cpu_ms, processes={})
    return outcome.model_copy(update={"cost": cost})


def with_times(outcome: PipelineReport, fast: bool, *, valid: bool) -> PipelineReport:
    latency = summarise([1.0 if fast else 9.0] * 60)
    held = {name: type(latency.p95)(getattr(latency, name).unchecked_ms, valid) for name in ("p50", "p95")}
    return outcome.model_copy(update={"latency_ms": latency.model_copy(update=held)})
