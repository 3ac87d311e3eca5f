"""Gates of an experiment, judged by `run` and by a job on the queries one at a time and on the load."""

import asyncio
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.experiments.experiment import Experiment
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import Jobs
from evaluator.service.served_files import MessagePaths, ServedDatasets
from services.chassis.errors import Unavailable
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import evaluated, planned


async def test_gates_of_an_experiment_decide_the_exit_status(tmp_path: Path) -> None:
    traffic = {"rates": [40], "seconds": 0.5, "warmup_seconds": 0}
    experiment = planned(
        tmp_path, load=traffic, pipelines=["bm25"], gates={"ndcg_at_10": 1.0, "errors": 0, "p99_ms": 1}
    )
    (tmp_path / "gated.yaml").write_text(experiment.model_dump_json(exclude_unset=True))
    with served(GatewayStub().app) as gateway:
        words = ["run", str(tmp_path / "gated.yaml"), "--runs", str(tmp_path / "runs"), "--gateway", gateway]
        done = await asyncio.to_thread(CliRunner().invoke, app, words)
    found = RunFolder(RunFolder.newest(tmp_path / "runs")).read("report.json", Report)
    assert found.load is not None
    # nDCG@10 is below its bound, also beside times that are not valid, on a busy machine.
    assert done.exit_code == 4, done.output
    gates = [*found.gates, *found.load.gates]
    assert [(one.traffic, one.gate, one.held) for one in gates if one.gate != "ndcg_at_10"] == [
        (None, "p99_ms", False), (None, "errors", True), ("40/s", "p99_ms", False), ("40/s", "errors", True)
    ]  # fmt: skip
    assert "bm25 at 40/s: p99_ms no value (" in done.output


async def test_gates_of_repeated_runs_that_are_not_valid_are_told(tmp_path: Path) -> None:
    experiment = planned(tmp_path, pipelines=["bm25"], gates={"ndcg_at_10": 0.1})
    (tmp_path / "gated.yaml").write_text(experiment.model_dump_json(exclude_unset=True))
    with served(GatewayStub(failing_queries={"red bell": Unavailable("gone")}).app) as gateway:
        words = ["run", str(tmp_path / "gated.yaml"), "--runs", str(tmp_path / "runs"), "--gateway", gateway]
        done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--repeat", "2"])
    assert done.exit_code == 3, done.output
    assert done.output.count("bm25: ndcg_at_10 0.5, at least 0.1: held") == 2
    assert "Exit status 3: the run of shop is not valid." in done.output


async def test_a_job_that_is_done_tells_gates_that_do_not_hold_and_times_of_its_load_that_are_not_valid(
    tmp_path: Path,
) -> None:
    traffic = {"rates": [0.001], "seconds": 0.5, "warmup_seconds": 0}
    experiment = planned(tmp_path, load=traffic, pipelines=["bm25"], gates={"ndcg_at_10": 0.8})
    with served(GatewayStub().app) as gateway:
        jobs = Jobs(tmp_path / "runs", gateway, ServedDatasets([tmp_path]), MessagePaths([]))
        state = jobs.start(experiment)
        for _ in range(3_000):
            state = jobs.state(state.id) or state
            if state.state != "running":
                break
            await asyncio.sleep(0.02)
    assert state.state == "done"
    assert state.detail.endswith(
        "bm25: ndcg_at_10 0.75, at least 0.8: NOT HELD; "
        "bm25 at 0.001/s: ndcg_at_10 no value (no request was sent), at least 0.8: NOT HELD; "
        "times of the load are not valid"
    )


async def test_gates_of_a_pipeline_and_relative_to_the_baseline_are_judged_by_the_report(tmp_path: Path) -> None:
    gates = {"ndcg_at_10": "baseline - 0.5", "pipelines": {"bm25": {"errors": 0}, "dense": {"errors": 1}}}
    experiment = planned(tmp_path, pipelines=["bm25", "dense"], baseline="dense", gates=gates)
    report, _ = await evaluated(GatewayStub(), experiment, tmp_path)
    assert [(one.pipeline, one.gate) for one in report.gates] == [
        ("bm25", "ndcg_at_10"), ("bm25", "errors"), ("dense", "errors"),
    ]  # fmt: skip
    with pytest.raises(ValidationError, match="no other pipeline is bound by it"):
        Experiment.model_validate(
            experiment.model_dump() | {"gates": {"pipelines": {"dense": {"p95_ms": "9 * baseline"}}}}
        )
    # Four queries bound no difference.
    assert report.gates[0].sentence.startswith("bm25: ndcg_at_10 no value (not shown that bm25 is not worse than dense")
    assert report.gates[0].sentence.endswith("at least -0.5 (baseline - 0.5): NOT HELD")
