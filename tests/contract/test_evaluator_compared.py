"""A load compared with an earlier run, through real sockets and generator processes, against a stub of the gateway."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import Result
from typer.testing import CliRunner

from evaluator.cli import app
from evaluator.client.client import connected
from evaluator.compared_load import read_kept_load, write_compared
from evaluator.errors import EvaluationError
from evaluator.evaluation import evaluate
from evaluator.load.compared_report import ComparedReport
from evaluator.load.report import LoadReport
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.served import served
from tests.support.small_runs import evaluated, planned


@pytest.fixture
def stub() -> GatewayStub:
    return GatewayStub()


@pytest.fixture
def gateway(stub: GatewayStub) -> Iterator[str]:
    with served(stub.app) as url:
        yield url


async def loaded(directory: Path, *words: str) -> Result:
    """Calls `load` with the experiment of `directory`."""
    asked = ["load", str(directory / "small.yaml"), "--runs", str(directory / "runs"), *words]
    return await asyncio.to_thread(CliRunner().invoke, app, asked)


@pytest.mark.integration
async def test_the_same_load_is_compared_with_an_earlier_run_and_its_verdict_is_the_exit_status(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    stub.search_delay_s = 0.01
    traffic = {"rates": [60], "seconds": 3, "warmup_seconds": 0.5, "calibration_seconds": 1}
    experiment = planned(tmp_path, pipelines=["bm25"], load=traffic)
    (tmp_path / "small.yaml").write_text(experiment.model_dump_json(exclude_unset=True))
    old = RunFolder.create(tmp_path / "runs", experiment)
    async with connected(gateway) as client:
        first = (await evaluate(client, old)).load
    assert first is not None
    assert first.calibration is not None

    other = await loaded(tmp_path, "--gateway", gateway, "--compare", str(old.path), "--rate", "70")
    assert other.exit_code == 1
    assert "because these differ: rates 60, now 70" in other.output.replace("\n", " ")

    stub.search_delay_s = 0.2
    junit = tmp_path / "junit.xml"
    done = await loaded(
        tmp_path, "--gateway", gateway, "--compare", str(old.path), "--margin", "0.5", "--junit", str(junit)
    )
    folder = RunFolder(RunFolder.newest(tmp_path / "runs"))
    found = folder.read("compared.json", ComparedReport)
    (point,) = found.points
    # A machine that was too busy tells nothing; else twenty times as long is slower on any machine.
    assert point.outcome == ("cannot tell" if point.faults else "slower")
    assert done.exit_code == (3 if point.faults else 4), done.output
    assert f"bm25 at 60/s: {found.sentence(point)}." in done.output
    assert point.intervals_from == "samples"
    assert (point.old.ndcg_at_10, point.old.goodput) == (
        first.points[0].quality.ndcg_at_10,
        first.points[0].goodput,
    )
    (case,) = ElementTree.parse(junit).getroot().iter("testcase")
    assert case.get("name") == "bm25 at 60/s: not slower by more than 0.5"
    assert len(case.findall("failure")) == 1

    # A report.json that was kept alone has no samples.
    alone = Path(shutil.copy(old.path / "report.json", tmp_path / "kept.json"))
    report = folder.read("load.json", LoadReport)
    (again,) = write_compared(folder, report, read_kept_load(alone), alone, 0.5).points
    assert (again.intervals_from, again.outcome) == ("binomial", point.outcome)


async def test_what_is_no_run_with_a_load_is_refused(tmp_path: Path) -> None:
    report, folder = await evaluated(GatewayStub(), planned(tmp_path), tmp_path)
    assert report.load is None
    alone = Path(shutil.copy(folder.path / "report.json", tmp_path / "report.json"))
    for path, said in (
        (alone, "has no load: give the folder of a run that sent one"),
        (folder.path, "no load.json; run"),
        (folder.path / "manifest.json", "give the folder of a run, or its report.json"),
        (tmp_path, "no run there"),
    ):
        with pytest.raises(EvaluationError, match=said):
            read_kept_load(path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--against", "http://127.0.0.1:9"], "--compare sends the load and compares it with an earlier run"),
        (["--export", "k6", "out"], "--compare sends the load and compares it with an earlier run"),
    ],
)
async def test_compare_goes_with_neither_against_nor_export(words: list[str], said: str, tmp_path: Path) -> None:
    experiment = planned(tmp_path, load={"rates": [5]})
    (tmp_path / "small.yaml").write_text(experiment.model_dump_json(exclude_unset=True))
    done = await loaded(tmp_path, "--compare", str(tmp_path / "old"), *words)
    assert done.exit_code == 2
    assert said in done.output.replace("\n", " ")
