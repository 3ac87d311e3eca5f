"""The times of a run on a machine whose counters the test writes: what is asked again, and the marks of a table."""

import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import Gates, judge_gates
from evaluator.machine.machine_conditions import MachineCounters
from evaluator.machine.measured_processes import measured_processes, record_stack
from evaluator.pages.markdown_page import markdown_parts
from evaluator.report.evaluation import ingest_step, quality_step, rank_step
from evaluator.report.pipeline_report import gated_figures
from evaluator.report.report_page import render_table, report_blocks
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.answers import read_outcomes
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.machine_counters import CountedMachine
from tests.support.small_runs import reached


def passing(machine: CountedMachine, shares: Callable[[int], dict[str, float]]) -> MachineCounters:
    """Counters of a machine on which a second passes at each look at the clock, with the shares of its number."""
    looks = count()

    def clock() -> float:
        machine.pass_time(1.0, **shares(next(looks)))
        return machine.now_s

    return replace(machine.counters, clock=clock)


async def timed(experiment: Experiment, tmp_path: Path, shares: Callable[[int], dict[str, float]]) -> Report:
    stub, folder = GatewayStub(), RunFolder.create(tmp_path / "runs", experiment)
    record_stack(tmp_path / "runs", "http://localhost", os.getpid())
    async with reached(stub) as client:
        await ingest_step(client, folder)
        await rank_step(client, folder, passing(CountedMachine(tmp_path / "machine"), shares))
    quality_step(folder)
    return report_step(folder)


async def test_other_work_without_end_marks_the_times_and_leaves_the_quality_and_the_bounds_that_hold(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.runs.latency.MIN_SAMPLES_FOR_P99", 2)
    report = await timed(experiment, tmp_path, lambda number: {"other": 0.4})
    assert report.timing_valid is False
    assert "other work disturbed up to 100% of the answers" in report.timing_reasons[0]
    assert report.conditions is not None
    assert report.conditions.foreign == pytest.approx(0.4)
    assert report.valid
    assert report.pipelines["bm25"].quality["MRR@10"] == pytest.approx(3 / 4)
    for outcome in report.pipelines.values():
        assert outcome.latency_ms.p99.held_ms is None
        assert re.fullmatch(r"at most [\d.]+\?", outcome.latency_ms.p99.cell())
    times = [cell for line in render_table(report).splitlines()[2:] for cell in line.split("|")[7:9]]
    assert all("?" in cell for cell in times)
    assert any("Times: marked with ?, because" in part for part in markdown_parts(report_blocks(report)))
    bm25 = report.pipelines["bm25"]
    (gate,) = judge_gates(Gates(p99_ms=60_000), [gated_figures("bm25", bm25, bm25, sound=True)], "bm25")
    assert gate.held  # other work only lengthens
    answers = [record.phase for record in read_outcomes(tmp_path / "runs" / "latest" / "answers/bm25.jsonl")]
    assert (answers.count("measured"), answers.count("again")) == (4, 4)


async def test_what_a_burst_disturbed_is_asked_again_by_every_pipeline_and_no_time_is_marked(
    experiment: Experiment, tmp_path: Path
) -> None:
    report = await timed(experiment, tmp_path, lambda number: {"other": 0.4 if number in (4, 5, 6) else 0.0})
    assert (report.timing_valid, report.timing_reasons) == (True, ())
    assert "?" not in render_table(report)
    folder = tmp_path / "runs" / "latest" / "answers"
    again = {
        file.stem: [record.query for record in read_outcomes(file) if record.phase == "again"]
        for file in folder.iterdir()
    }
    assert len(again) == 2
    assert len({*map(tuple, map(sorted, again.values()))}) == 1
    assert again["bm25"] != []
    first = [record for record in read_outcomes(folder / "bm25.jsonl") if record.phase == "measured"]
    assert {record.query for record in first if record.disturbed} == set(again["bm25"])
    assert {outcome.latency_ms.disturbed for outcome in report.pipelines.values()} == {0.0}


async def test_with_caches_nothing_is_asked_again_and_what_was_disturbed_is_marked(
    experiment: Experiment, tmp_path: Path
) -> None:
    report = await timed(experiment.model_copy(update={"caches": True}), tmp_path, lambda number: {"other": 0.4})
    assert {outcome.latency_ms.disturbed for outcome in report.pipelines.values()} == {1.0}
    answers = read_outcomes(tmp_path / "runs" / "latest" / "answers" / "bm25.jsonl")
    assert "again" not in {record.phase for record in answers}


async def test_on_a_quiet_machine_no_time_is_marked(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.runs.latency.MIN_SAMPLES_FOR_P99", 2)
    report = await timed(experiment, tmp_path, lambda number: {"own": 0.9, "other": 0.03})
    assert (report.timing_valid, report.timing_reasons) == (True, ())
    assert all(outcome.latency_ms.p99.held_ms is not None for outcome in report.pipelines.values())
    assert "?" not in render_table(report)
    assert report.recommendation is not None
    assert "?" not in report.recommendation.text


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_processes_of_a_recorded_stack_are_known_until_it_ends_and_those_of_others_never(tmp_path: Path) -> None:
    record_stack(tmp_path, "http://127.0.0.1:8000", os.getpid())
    assert measured_processes(tmp_path, "http://localhost:8000") == (os.getpid(),)
    assert measured_processes(tmp_path, "http://127.0.0.1:8001") is None
    record = next((tmp_path / ".stacks").iterdir())
    record.write_text(record.read_text().replace('"started":', '"started":1'))  # the id is another process's now
    assert measured_processes(tmp_path, "http://127.0.0.1:8000") is None
