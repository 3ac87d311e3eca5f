"""The times of a run on a machine whose counters the test writes: `timing_valid`, its reasons, the marks of a table."""

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import Gates, judge_gates
from evaluator.machine.machine_conditions import MachineCounters
from evaluator.machine.measured_processes import measured_processes, record_stack
from evaluator.report.evaluation import ingest_step, quality_step, rank_step
from evaluator.report.pipeline_report import gated_figures
from evaluator.report.report_page import render_table, report_blocks
from evaluator.report.report_step import report_step
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.machine_counters import CountedMachine
from tests.support.small_runs import planned, reached

FOREIGN = "other processes used 40% of the CPU (limit 10%)"


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return planned(tmp_path)


def passing(machine: CountedMachine, **shares: float) -> MachineCounters:
    """Counters of a machine on which 100 s with these shares pass at each reading."""

    def clock() -> float:
        machine.pass_time(100.0, **shares)
        return machine.now_s

    return replace(machine.counters, clock=clock)


async def timed(experiment: Experiment, tmp_path: Path, **shares: float) -> Report:
    stub, folder = GatewayStub(), RunFolder.create(tmp_path / "runs", experiment)
    record_stack(tmp_path / "runs", "http://localhost", os.getpid())
    async with reached(stub) as client:
        await ingest_step(client, folder)
        await rank_step(client, folder, passing(CountedMachine(tmp_path / "machine"), **shares))
    quality_step(folder)
    return report_step(folder)


async def test_foreign_load_makes_the_times_invalid_and_leaves_the_quality(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.runs.latency.MIN_SAMPLES_FOR_P99", 2)
    report = await timed(experiment, tmp_path, other=0.4)
    assert report.timing_reasons == (FOREIGN,)
    assert report.timing_valid is False
    assert report.conditions is not None
    assert report.conditions.foreign == pytest.approx(0.4)
    assert report.valid
    assert report.pipelines["bm25"].quality["MRR@10"] == pytest.approx(3 / 4)
    assert {outcome.latency_ms.p99.held_ms for outcome in report.pipelines.values()} == {None}
    assert all(outcome.latency_ms.p99.cell().endswith("?") for outcome in report.pipelines.values())
    times = [cell for line in render_table(report).splitlines()[2:] for cell in line.split("|")[7:9]]
    assert [cell.strip()[-1] for cell in times] == ["?"] * 4
    status = f"Quality: valid. Times: marked with ?, because {FOREIGN}. End other programs and measure again. Gates and"
    assert any(status in getattr(block, "text", "") for block in report_blocks(report))
    assert {outcome.latency_ms.valid for outcome in report.pipelines.values()} == {False}
    bm25 = report.pipelines["bm25"]
    (gate,) = judge_gates(Gates(p99_ms=1_000), [gated_figures("bm25", bm25, bm25)], "bm25")
    assert (gate.held, gate.value, gate.reason) == (False, None, "the times are not valid")
    assert report.recommendation is not None
    assert "?" in report.recommendation.text


async def test_on_a_quiet_machine_no_counter_is_a_reason(
    experiment: Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.runs.latency.MIN_SAMPLES_FOR_P99", 2)
    report = await timed(experiment, tmp_path, own=0.9, other=0.05)
    assert (report.timing_valid, report.timing_reasons) == (True, ())
    assert all(outcome.latency_ms.p99.held_ms is not None for outcome in report.pipelines.values())
    assert "?" not in render_table(report)
    assert {outcome.latency_ms.valid for outcome in report.pipelines.values()} == {True}
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
