"""A summary over runs tells mean and spread, and does not hide that two runs ranked differently."""

import statistics
from pathlib import Path

import pytest

from evaluator.datasets.text_files import sha256
from evaluator.report.evaluation import quality_step
from evaluator.report.repeats import RepeatReport, Spread, render_repeats, render_repeats_page, repeats_step
from evaluator.report.report_step import report_step
from evaluator.steps.run_import import import_runs
from tests.support.gateway_stub import write_shop

WHOLE = "q1 Q0 d1 1 9 x\nq1 Q0 d5 2 8 x\nq2 Q0 d4 1 9 x\nq3 Q0 d1 1 9 x\nq4 Q0 d3 1 9 x\n"


def summary(tmp_path: Path, *texts: str) -> RepeatReport:
    if not (tmp_path / "shop").exists():
        write_shop(tmp_path / "shop")
    runs = []
    for number, text in enumerate(texts):
        path = tmp_path / f"{number}.trec"
        path.write_text(text)
        folder = import_runs(tmp_path / "runs", {"arm": path}, tmp_path / "shop", split="test", name=None, depth=100)
        quality_step(folder)
        runs.append((folder, report_step(folder)))
    return repeats_step(runs)


def test_equal_runs_have_no_spread_and_say_that_they_are_equal(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE)
    assert found.identical
    assert found.warnings == ()
    pipeline = found.pipelines["arm"]
    assert (pipeline.rankings_differ, pipeline.figures_differ, pipeline.quality["nDCG@10"].std) == (0, 0, 0.0)


def test_a_query_with_another_figure_is_counted_and_told(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE.replace("q2 Q0 d4", "q2 Q0 d1"), WHOLE)
    assert not found.identical
    assert found.warnings == ("arm: the quality of 1 query is NOT THE SAME in all runs",)
    spread = found.pipelines["arm"].quality["MRR@10"]
    assert (spread.mean, spread.min, spread.max) == (pytest.approx(2 / 3), 0.5, 0.75)
    assert spread.std == pytest.approx(statistics.stdev([0.75, 0.5, 0.75]))


def test_another_order_that_changes_no_figure_is_counted_apart(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE.replace("q1 Q0 d5", "q1 Q0 d3"))
    assert (found.pipelines["arm"].rankings_differ, found.pipelines["arm"].figures_differ) == (1, 0)
    assert found.identical


def test_a_latency_that_no_run_has_is_a_dash(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE)
    assert found.pipelines["arm"].latency_ms == {}
    header, _, row = render_repeats(found).splitlines()
    cells = dict(zip(header.split("|"), row.split("|"), strict=True))
    assert cells[next(name for name in cells if name.strip() == "p50 ms")].strip() == "–"


def test_the_summary_names_the_reports_that_it_was_made_from(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE)
    last = tmp_path / "runs" / found.runs[-1]
    assert found.made_from == {f"../{run}/report.json": sha256(last.parent / run / "report.json") for run in found.runs}


def test_every_time_over_runs_of_which_one_does_not_hold_is_marked(tmp_path: Path) -> None:
    found = summary(tmp_path, WHOLE, WHOLE)
    spread = Spread(mean=21.5, std=1.5, min=20.5, max=22.5, runs=2)
    timed = found.pipelines["arm"].model_copy(update={"latency_ms": {"p50": spread}})
    for valid in (True, False):
        report = found.model_copy(update={"pipelines": {"arm": timed}, "timing_valid": valid})
        page = render_repeats_page(report)
        assert [f"{ms}?" in page for ms in (21.5, 1.5, 20.5, 22.5)] == [not valid] * 4
