"""Load through real sockets and generator processes, against a stub of the gateway."""

import asyncio
import base64
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import connected
from evaluator.errors import EvaluationError
from evaluator.experiments.experiment import Experiment
from evaluator.load.against_report import AgainstReport
from evaluator.load.against_step import against_step
from evaluator.load.capacity import CAPACITY, CapacityFile
from evaluator.load.load_report import LoadReport
from evaluator.load.load_step import load_step
from evaluator.load.points.figures import read_hlog
from evaluator.load.sending.samples import read_samples
from evaluator.report.evaluation import evaluate, ingest_step
from evaluator.runs.run_folder import RunFolder
from services.chassis.errors import Unavailable
from services.contracts.query import SearchRequest
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import planned
from tests.support.times import UndecidedError, repeated_when_late, timed


async def loaded(gateway: str, experiment: Experiment, runs: Path) -> tuple[LoadReport, RunFolder]:
    folder = RunFolder.create(runs, experiment)
    async with connected(gateway) as client:
        await ingest_step(client, folder)
        return await load_step(client, folder), folder


async def test_latency_and_quality_are_of_the_same_requests_and_lost_ones_count(
    gateway: str, stub: GatewayStub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evaluator.steps.pipeline_costs.LEAST_BLOCK_S", 0.1)
    stub.failing_queries = {"red bell": Unavailable("gone")}
    stub.degraded_queries = {"oil chain"}
    traffic = {"rates": [60], "seconds": 1, "warmup_seconds": 0.2, "deadline_ms": 2_000, "best_under_ms": 250}
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, load=traffic))
    async with connected(gateway) as client:
        report = (await evaluate(client, folder, processes={"gateway": gateway})).load
    assert report == folder.read("load.json", LoadReport)
    assert "| CPU ms per request |" in (folder.path / "report.md").read_text().partition("## Load")[2]
    assert [point.pipeline for point in report.points] == ["bm25", "hybrid"]
    charts = [
        set(re.findall(r"\(load/\S+\.svg\)", (folder.path / page).read_text())) for page in ("report.md", "load.md")
    ]
    assert charts[0] == charts[1] != set()
    point = report.points[0]
    samples = list(read_samples(folder.path / point.files["samples"]))
    measured = [sample for sample in samples if sample.phase == "measured"]
    assert (point.counts.requests, point.warmup) == (len(measured), len(samples) - len(measured))
    lost = [sample for sample in measured if sample.query == "q1"]
    assert point.counts.failed == len(lost) > 0
    assert point.counts.errors_by_kind == {"unavailable": len(lost)}
    assert len({sample.request_id for sample in lost} - {None}) == len(lost)
    assert [(request.error, request.request_id) for request in point.failed] == [
        ("unavailable", sample.request_id) for sample in lost[:5]
    ]
    assert str(lost[0].request_id) in (folder.path / "load.md").read_text()
    assert all(sample.latency_ms is None and sample.counted_ms >= 2_000 for sample in lost)
    slowest = point.latency_ms.max.unchecked_ms
    assert slowest is not None
    assert slowest >= 2_000
    assert point.counts.degraded == sum(sample.query == "q2" for sample in measured) > 0
    assert point.quality.ndcg_at_10 == pytest.approx(
        sum(sample.query in ("q2", "q4") for sample in measured) / len(measured)
    )
    merged = read_hlog(folder.path / point.files["histogram"])
    assert merged.get_total_count() == len(measured)
    # Both pipelines had the same queries at the same times.
    other = read_samples(folder.path / report.points[1].files["samples"])
    assert [(sample.query, sample.planned_s) for sample in other] == [
        (sample.query, sample.planned_s) for sample in samples
    ]


async def test_a_closed_loop_tells_no_tail(gateway: str, stub: GatewayStub, tmp_path: Path) -> None:
    stub.search_delay_s = 0.05
    traffic = {"in_flight": [2], "seconds": 0.4, "warmup_seconds": 0}
    experiment = planned(tmp_path, pipelines=["bm25"], load=traffic)
    report, _ = await loaded(gateway, experiment, tmp_path / "runs")
    (closed,) = report.points
    assert (closed.pipeline, closed.traffic, closed.loop) == ("bm25", "inflight2", "closed")
    assert closed.latency_ms.p99.unchecked_ms is None
    # Two in flight, 50 ms each: eight pairs are sent within the time, fewer where the machine is busy.
    assert closed.counts.answered > 4
    assert 0 < closed.goodput <= 2 / 0.05
    assert report.ratios == ()


async def test_a_rate_without_a_request_is_a_point_whose_times_are_not_valid(gateway: str, tmp_path: Path) -> None:
    traffic = {"rates": [0.001], "seconds": 0.1, "warmup_seconds": 0, "best_under_ms": 250}
    report, folder = await loaded(gateway, planned(tmp_path, load=traffic, pipelines=["bm25"]), tmp_path / "runs")
    (point,) = report.points
    assert (point.counts.requests, point.offered, point.goodput) == (0, 0.0, 0.0)
    assert point.timing_faults[0] == "no request was planned"
    assert not report.timing_valid
    assert "no request was planned" in (folder.path / "load.md").read_text()


async def test_an_interrupted_load_leaves_its_requests_and_says_so(
    gateway: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = {"rates": [50], "seconds": 0.3, "warmup_seconds": 0, "repeat": 2}
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, load=traffic, pipelines=["bm25"]))

    async def between() -> None:
        raise EvaluationError("the services did not start")

    async with connected(gateway) as client:
        await ingest_step(client, folder)
        with pytest.raises(EvaluationError, match="did not start"):
            await load_step(client, folder, between)
    kept = list(read_samples(folder.path / "load" / "bm25-50.jsonl"))
    assert len(kept) > 3
    assert {sample.repeat for sample in kept} == {0}
    assert "hold what was sent (drives: 1, the last one of bm25 at 50, repeat 1)" in capsys.readouterr().err
    assert not folder.has("load.json")


@pytest.mark.integration
@pytest.mark.alone
async def test_repeats_run_a_command_between_them_and_every_pipeline_follows_every_other_one_slice_by_slice(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    traffic = {"rates": [60], "seconds": 0.8, "slice_seconds": 0.4, "warmup_seconds": 0, "repeat": 2}
    experiment = planned(tmp_path, load=traffic, pipelines=["bm25", "dense", "hybrid"])
    folder = RunFolder.create(tmp_path / "runs", experiment)
    calls: list[int] = []

    async def between() -> None:
        calls.append(len(calls))

    async with connected(gateway) as client:
        await ingest_step(client, folder)
        report = await load_step(client, folder, between)
    assert calls == [0]
    point = report.points[0]
    samples = list(read_samples(folder.path / point.files["samples"]))
    assert {(sample.repeat, sample.slice) for sample in samples} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    assert len(point.conditions) == 4
    assert point.generators.processes == 1
    assert len(point.repeats["p50"].values) == 2
    assert point.counts.requests == len(samples) == pytest.approx(96, rel=0.4)
    pairs = {("bm25", "dense"), ("bm25", "hybrid"), ("dense", "hybrid")}
    assert {(ratio.first, ratio.second) for ratio in report.ratios} == pairs
    asked = [str(search.pipeline) for search in stub.searches if search.query != "can this pipeline run"]
    turns = [name for name, before in zip(asked, ["", *asked], strict=False) if name != before]
    assert len(turns) == 12
    assert len(set(pairwise(turns))) == 6


# Bounds so long that a busy machine is no fault of the times.
SEARCH = {"p99_ms": 9_000, "point_seconds": 1.5, "warmup_seconds": 0.1}
# Requests that are late on a busy machine begin together. Within this time they are no part of a measurement.
FIRST_CONNECTIONS_S = 0.3


@pytest.mark.integration
@pytest.mark.alone
@repeated_when_late
async def test_a_pipeline_that_refuses_every_request_carries_no_rate(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    stub.most_searches_a_second = 10.0
    experiment = planned(tmp_path, pipelines=["bm25"], load={"capacity": SEARCH}, gates={"errors": 0})
    report, folder = await loaded(gateway, experiment, tmp_path / "runs")
    assert report.gates == ()
    assert "gates are judged at the planned rates, not at the points of the search for the capacity" in report.remarks
    file = folder.read(CAPACITY, CapacityFile)
    assert file.made_from.keys() == {"manifest.json", "load.json"}
    (capacity,) = file.capacities
    if capacity.found.outcome == "cannot tell":
        raise UndecidedError(capacity.sentence)
    assert capacity.sentence.startswith("bm25 carries no rate with p99 <= 9000 ms: lower than")
    assert (report.points, capacity.multiples, capacity.knee) == ((), (), None)
    assert report.capacities == file.capacities
    looks = list(read_samples(folder.path / "load" / "bm25-search.jsonl"))
    assert {sample.rate for sample in looks} == {sample.rate for sample in capacity.found.measured}
    counted = sum(measured.requests for measured in capacity.found.measured)
    assert sum(sample.phase == "measured" for sample in looks) == counted
    assert "the generators share the" in report.remarks[0]
    page = (folder.path / "load.md").read_text()
    assert capacity.sentence in page
    assert "## Percentiles" not in page


@pytest.mark.integration
@pytest.mark.alone
@pytest.mark.timeout(600)
@repeated_when_late
async def test_the_limit_of_a_gateway_is_found_and_shown_with_what_lies_beyond(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    stub.most_searches_a_second = 300.0
    search = {"capacity": SEARCH | {"point_seconds": 2.4, "warmup_seconds": FIRST_CONNECTIONS_S}}
    traffic = search | {"seconds": 1, "warmup_seconds": FIRST_CONNECTIONS_S, "deadline_ms": 2_000}
    report, folder = await loaded(gateway, planned(tmp_path, pipelines=["bm25"], load=traffic), tmp_path / "runs")
    (capacity,) = folder.read(CAPACITY, CapacityFile).capacities
    if capacity.found.outcome == "cannot tell":
        raise UndecidedError(capacity.sentence)
    with timed():
        assert capacity.found.rate == pytest.approx(300, rel=0.1), capacity.sentence
    assert capacity.found.verified == 5
    assert [point.traffic for point in report.points] == [f"{multiple.multiple:g}x" for multiple in capacity.multiples]
    goodput = {multiple.multiple: multiple.goodput for multiple in capacity.multiples}
    offered = {point.traffic: point.offered for point in report.points}
    with timed():
        assert goodput[0.45] == pytest.approx(offered["0.45x"], rel=0.02)
        # A slow machine gives the stub more time: it takes 300 a second until the last request in time, 3 s at most.
        assert goodput[0.45] < goodput[1.5]
        assert capacity.found.rate is not None
        assert goodput[4.0] < 3.5 * capacity.found.rate
    page = (folder.path / "load.md").read_text()
    assert capacity.sentence in page
    assert "(load/capacity-bm25.svg)" in page
    assert f"capacity {capacity.found.rate:g}/s" in (folder.path / "load" / "capacity-bm25.svg").read_text()


async def test_traffic_is_exported_for_every_pipeline_and_rate_and_none_of_it_is_sent(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    async with connected(gateway) as client:
        await ingest_step(client, RunFolder.create(tmp_path / "runs", planned(tmp_path)))
    words = [
        "--dataset",
        str(tmp_path / "shop"),
        "--collection",
        "shop",
        "--pipelines",
        "bm25,dense",
        "--gateway",
        gateway,
    ]
    words += ["--runs", str(tmp_path / "runs")]
    asked = ["load", "demo", *words, "--rate", "5,20", "--seconds", "3", "--top", "7", "--deadline-ms", "900"]
    done = await asyncio.to_thread(CliRunner().invoke, app, [*asked, "--export", str(tmp_path / "exported")])
    assert done.exit_code == 0, done.output
    names = [f"{pipeline}-{rate}" for pipeline in ("bm25", "dense") for rate in (5, 20)]
    assert "These scripts send at a constant rate; `load` itself plans poisson arrivals." in done.output
    assert done.output.splitlines()[-4:] == [f"k6 run {name}.js" for name in names]
    assert {path.name for path in (tmp_path / "exported").iterdir()} == {
        f"{name}{end}" for name in names for end in (".js", ".targets.jsonl")
    }
    targets = (tmp_path / "exported" / "dense-20.targets.jsonl").read_text().splitlines()
    body = SearchRequest.model_validate_json(base64.b64decode(json.loads(targets[0])["body"]))
    assert (len(targets), body.pipeline, body.top) == (60, "dense", 7)
    assert {request.query for request in stub.searches} == {"can this pipeline run"}
    done = await asyncio.to_thread(
        CliRunner().invoke, app, ["load", "demo", *words, "--in-flight", "2", "--export", "x"]
    )
    assert done.exit_code == 2
    assert "leave out --in-flight" in done.output.replace("\n", " ")


@pytest.mark.integration
@pytest.mark.alone
@repeated_when_late
async def test_two_gateways_take_turns_with_the_same_traffic_and_the_slower_one_is_named(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    other = GatewayStub()
    with served(other.app) as baseline:
        experiment = planned(tmp_path, pipelines=["bm25"])
        for url in (gateway, baseline):
            async with connected(url) as client:
                await ingest_step(client, RunFolder.create(tmp_path / "runs", experiment))
        stub.search_delay_s, other.search_delay_s = 0.1, 0.01
        (tmp_path / "small.yaml").write_text(experiment.model_dump_json(exclude_unset=True))
        words = f"--rate 50 --seconds 4 --slice-seconds 0.5 --warmup-seconds 0 --gateway {gateway} --against {baseline}"
        done = await asyncio.to_thread(
            CliRunner().invoke,
            app,
            ["load", str(tmp_path / "small.yaml"), "--runs", str(tmp_path / "runs"), *words.split()],
        )
        folder = RunFolder(RunFolder.newest(tmp_path / "runs"))
        (point,) = folder.read("against.json", AgainstReport).points
        # Where the machine was too busy for the generators, nothing is judged.
        assert done.exit_code == (3 if point.speed is None else 4), done.output
        assert (f"{gateway} against {baseline}: p50 slower by" in done.output) == (point.speed is not None)
        samples = [list(read_samples(folder.path / point.files[side])) for side in ("baseline", "judged")]
        sent = [[(sample.slice, sample.query, sample.planned_s) for sample in side] for side in samples]
        assert sent[0] == sent[1]
        # A sleep of 100 ms may end a little early.
        assert min(sample.counted_ms for sample in samples[0]) < 99 <= min(sample.counted_ms for sample in samples[1])
        if point.speed is None:
            raise UndecidedError("; ".join(point.timing_faults))
        assert point.quality is not None
        assert point.quality.outcome == "cannot tell"  # of four queries


@pytest.mark.integration
@pytest.mark.alone
async def test_an_interrupted_comparison_of_two_gateways_leaves_its_requests_and_says_so(
    gateway: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traffic = {"rates": [50], "seconds": 4.8, "slice_seconds": 0.3, "warmup_seconds": 0}
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, load=traffic, pipelines=["bm25"]))
    files = [folder.path / "load" / f"bm25-50-{side}.jsonl" for side in ("baseline", "judged")]
    with served(GatewayStub().app) as other:
        async with connected(gateway) as judged, connected(other) as baseline:
            for client in (baseline, judged):
                await ingest_step(client, folder)
            running = asyncio.create_task(against_step(judged, baseline, folder, 0.05))
            async with asyncio.timeout(60):
                while not all(file.exists() for file in files):  # written by a thread
                    assert not running.done()
                    await asyncio.sleep(0.02)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert all(0 in {sample.slice for sample in read_samples(file)} for file in files)
    assert "the load ended early, without against.json:" in capsys.readouterr().err
    assert not folder.has("against.json")
