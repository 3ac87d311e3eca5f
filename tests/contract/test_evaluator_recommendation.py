"""What a run recommends: on the console, in report.json and on the page; by which preference; and when nothing."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.experiments.preference import Preference, preference
from evaluator.machine.process_costs import PipelineCost
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import RankedRun, read_ranked_run
from evaluator.report.recommendation import Recommendation, recommend
from evaluator.report.run_report import Report
from evaluator.runs.latency import summarise
from evaluator.runs.run_folder import RunFolder
from tests.support.simulated_runs import ranked_by, write_collection, write_rankings, write_three_rankings
from tests.support.small_runs import Evaluator


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


def test_the_best_pipeline_is_recommended_with_its_runner_up(evaluator: Evaluator, tmp_path: Path) -> None:
    files = write_three_rankings(tmp_path)
    _, report, shown = reported(evaluator, tmp_path, [files["fair"], files["good"], files["bad"]])
    advice = report.recommendation
    assert advice is not None
    assert (advice.pipeline, advice.contenders, advice.runner_up) == ("good", ("good",), "fair")
    assert advice.text in shown
    page = (next((tmp_path / "runs").glob("2*")) / "report.md").read_text()
    assert page.splitlines()[2].replace("*", "") == advice.text
    assert "was not measured" in advice.text
    (pair,) = [pair for pair in report.pairs if {pair.first, pair.second} == {"good", "fair"}]
    assert pair.interval is not None
    low, high = sorted(map(abs, pair.interval))
    lower = f"Runner-up fair: {abs(pair.difference):.4f} lower (95 % interval {low:.4f} to {high:.4f}, of 3 pairs"
    assert lower in advice.text


def test_what_is_not_told_from_the_best_contends_and_the_preference_chooses(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    run, report, _ = reported(evaluator, tmp_path, alike)
    best = max(report.pipelines, key=lambda name: report.pipelines[name].quality["nDCG@10"] or 0)
    other = {"one": "two", "two": "one"}[best]
    advice = report.recommendation
    assert advice is not None
    assert (advice.pipeline, set(advice.contenders), advice.runner_up) == (best, {"one", "two"}, other)
    (pair,) = [pair for pair in report.pairs if {pair.first, pair.second} == {"one", "two"}]
    assert pair.queries_needed is not None
    assert f"60 queries do not show (about {pair.queries_needed - 60:,} more would)" in advice.text

    def chosen(pipelines: dict[str, PipelineReport], prefer: str) -> Recommendation:
        advice = recommend(pipelines, run.family, preference(prefer))
        assert advice is not None
        return advice

    costly = {name: with_cpu(outcome, 8.0 if name == best else 2.0) for name, outcome in report.pipelines.items()}
    by_cpu = chosen(costly, "cpu")
    assert (by_cpu.pipeline, by_cpu.runner_up) == (other, best)
    assert f"Runner-up {best}: " in by_cpu.text
    assert "higher" in by_cpu.text
    assert "at 4.0 times the CPU" in by_cpu.text
    assert "at a quarter of the CPU" in chosen(costly, "quality").text
    large = {name: outcome.model_copy(update={"index_bytes": 1}) for name, outcome in costly.items()}
    large[best] = large[best].model_copy(update={"index_bytes": 9})
    assert chosen(large, "index").pipeline == other

    timed = {name: with_times(outcome, name != best, valid=True) for name, outcome in costly.items()}
    assert chosen(timed, "p95=5ms").pipeline == other
    assert chosen(timed, "p95=9").pipeline == best
    assert chosen(timed, "p95=0.5ms").pipeline is None
    doubtful = {name: with_times(outcome, name != best, valid=False) for name, outcome in costly.items()}
    for prefer, pipelines in (("p95=5ms", doubtful), ("cpu", report.pipelines), ("index", costly)):
        unknown = chosen(dict(pipelines), prefer)
        assert (unknown.pipeline, "Nothing is recommended by" in unknown.text) == (None, True)


def test_other_work_without_end_leaves_the_bounds_that_it_cannot_break_and_a_cost_in_cpu(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    run, report, _ = reported(evaluator, tmp_path, alike)
    beside = summarise([9.0] * 60, disturbed=1.0)
    pipelines = {
        name: with_cpu(outcome.model_copy(update={"latency_ms": beside}), 8.0)
        for name, outcome in report.pipelines.items()
    }
    kept = recommend(pipelines, run.family, preference("p95=10ms"))  # it only lengthens
    assert kept is not None
    assert kept.pipeline is not None
    assert ("8.0 CPU ms per query" in kept.text, "?" in kept.text) == (True, False)
    left_open = recommend(pipelines, run.family, preference("p95=5ms"))
    assert left_open is not None
    assert (left_open.pipeline, "other work left open" in left_open.text) == (None, True)


@pytest.mark.parametrize("word", ["speed", "p95", "p95=0", "p95=-1ms", "cpu=3", ""])
def test_an_unknown_preference_is_refused_with_those_that_there_are(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path], word: str
) -> None:
    reported(evaluator, tmp_path, alike)
    (run,) = (tmp_path / "runs").glob("2*")
    refused = evaluator("report", "--run", run, "--prefer", word)
    assert (refused.exit_code, "quality, p95=200ms, cpu or index" in refused.stderr) == (2, True), refused.output


def test_of_a_sample_the_judged_queries_that_lie_unused_are_named(
    evaluator: Evaluator, tmp_path: Path, alike: list[Path]
) -> None:
    run, report, _ = reported(evaluator, tmp_path, alike)
    assert run.family is not None
    advice = recommend(report.pipelines, replace(run.family, unused=225), Preference())
    assert advice is not None
    assert "(run all 225)" in advice.text
    assert "more would" not in advice.text


def test_nothing_is_recommended_of_one_pipeline_or_of_a_run_that_is_not_valid(
    evaluator: Evaluator, tmp_path: Path
) -> None:
    files = write_three_rankings(tmp_path)
    _, alone, shown = reported(evaluator, tmp_path, [files["good"]])
    assert (alone.recommendation, "Ship" in shown) == (None, False)
    bounded = evaluator("report", "--run", next((tmp_path / "runs").glob("2*")), "--prefer", "cpu")
    assert (bounded.exit_code, "--prefer" in bounded.stderr) == (2, True)
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
