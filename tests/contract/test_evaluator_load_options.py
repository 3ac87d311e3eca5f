"""Options of `load`: what is refused before anything is sent, and what an early end leaves."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.client.client import connected
from evaluator.report.evaluation import ingest_step
from evaluator.runs.run_folder import RunFolder
from tests.support.gateway_stub import GatewayStub
from tests.support.processes import ROOT
from tests.support.small_runs import planned

AGAINST = ["--against", "http://h:1"]
NOWHERE = ["--gateway", "http://127.0.0.1:9", "--wait", "0"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "10,,20"], "--rate 10,,20: give numbers, for example 10,20,40"),
        (["--rate", "0"], "--rate 0: greater than 0"),
        (["--rate", "10", "--arrivals", "often"], "--arrivals often: 'poisson' or 'constant'"),
        (["--rate", "10,20,10.0"], "--rate 10,20,10: 10 is there twice; --repeat sends"),
        (["--find-capacity", "--p99", "9", "--point-seconds", "3"], "--point-seconds must be more than the 5 s of"),
        (["--find-capacity"], "--find-capacity needs --p99, the bound in milliseconds"),
        (["--rate", "10", "--p99", "500"], "--p99 and --point-seconds are options of --find-capacity"),
        (["--in-flight", "2", "--best-under", "250"], "--best-under compares pipelines at a rate: give --rate"),
        (["--in-flight", "2", "--arrivals", "poisson"], "--in-flight would not heed these options"),
        ([], "say what to send: --rate, --in-flight or --find-capacity"),
        (["--rate", "10", "--margin", "0.1"], "--margin is an option of --against"),
        (["--rate", "10", "--between", "true"], "--between runs before each repeat but the first: give --repeat"),
        (["--rate", "10", "--repeat", "2", *AGAINST], "--against sends every slice once: give --repeat 1"),
        (["--rate", "10", "--best-under", "9", *AGAINST], "leave out --between and --best-under"),
        (["--rate", "10", "--seconds", "20", *AGAINST], "--against needs 8 pairs of slices or more, and --seconds 20"),
        (
            ["--rate", "10", "--gateway", "http://localhost:1", "--against", "http://127.0.0.1:1"],
            "is the gateway itself",
        ),
        (["--rate", "10", "--export", "x", *AGAINST], "leave out --against"),
        (["--in-flight", "2", "--repeat", "2", "--export", "x"], "leave out --in-flight, --repeat"),
        (["--run", "."], "name either an experiment or, with --run, the folder of a run"),
    ],
)
def test_an_option_at_fault_is_named_before_anything_is_sent(words: list[str], said: str, tmp_path: Path) -> None:
    planned(tmp_path)
    done = CliRunner().invoke(
        app, ["load", "demo", "--dataset", str(tmp_path / "shop"), "--runs", str(tmp_path / "runs"), *words]
    )
    assert (done.exit_code, (tmp_path / "runs").exists()) == (2, False)
    assert said in done.output.replace("\n", " ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seconds", "3", "--dataset", "."], "leave out --seconds, --dataset"),
        (["--gateway", "http://127.0.0.1:9", "--wait", "0"], "the gateway at http://127.0.0.1:9 was not ready"),
        (["--processes", "dense=http://h:1", *NOWHERE], "the gateway at http://127.0.0.1:9 was not ready"),
    ],
)
def test_options_of_a_run_stand_on_the_command_line_not_in_the_environment(
    words: list[str], said: str, tmp_path: Path
) -> None:
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, load={"rates": [20]}))
    environment = {"DATASET": "elsewhere", "PIPELINES": "dense", "TOP": "7"}
    done = CliRunner().invoke(app, ["load", "--run", str(folder.path), *words], env=environment)
    assert done.exit_code == (2 if "leave out" in said else 1)
    assert said in done.output.replace("\n", " ")


def test_a_load_that_is_refused_before_it_is_sent_leaves_no_run_folder(tmp_path: Path) -> None:
    planned(tmp_path)
    asked = ["load", "demo", "--dataset", str(tmp_path / "shop"), "--runs", str(tmp_path / "runs"), "--rate", "10"]
    done = CliRunner().invoke(app, [*asked, *NOWHERE])
    assert (done.exit_code, RunFolder.every(tmp_path / "runs")) == (1, [])


async def test_processes_that_tell_nothing_are_named_before_anything_is_sent(
    gateway: str, stub: GatewayStub, tmp_path: Path
) -> None:
    planned(tmp_path)
    asked = ["load", "demo", "--dataset", str(tmp_path / "shop"), "--runs", str(tmp_path / "runs"), "--rate", "10"]
    words = [*asked, "--gateway", gateway, "--processes", f"gateway={gateway},dense=http://127.0.0.1:9"]
    done = await asyncio.to_thread(CliRunner().invoke, app, words)
    assert done.exit_code == 1
    assert "--processes: nothing can be read at dense=http://127.0.0.1:9 (" in done.output.replace("\n", " ")
    assert (stub.searches, RunFolder.every(tmp_path / "runs")) == ([], [])


@pytest.mark.integration  # starts the command line as a process
@pytest.mark.alone
def test_a_load_that_is_terminated_ends_its_generators_and_leaves_no_task(gateway: str, tmp_path: Path) -> None:
    experiment = planned(tmp_path, pipelines=["bm25"], load={"rates": [20], "seconds": 60})
    folder = RunFolder.create(tmp_path / "runs", experiment)

    async def ingested() -> None:
        async with connected(gateway) as client:
            await ingest_step(client, folder)

    asyncio.run(ingested())
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "evaluator", "load", "--run", str(folder.path), "--gateway", gateway]
    process = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path / "tmp")})
    until = time.monotonic() + 60
    while not list((tmp_path / "tmp").glob("load-*/task.pickle")):
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 143
    assert not list((tmp_path / "tmp").glob("load-*"))


async def test_a_load_prints_the_page_to_open_first(gateway: str, tmp_path: Path) -> None:
    traffic = {"rates": [20], "seconds": 0.5, "warmup_seconds": 0}
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path, load=traffic, pipelines=["bm25"]))
    async with connected(gateway) as client:
        await ingest_step(client, folder)
    words = ["load", "--run", str(folder.path), "--gateway", gateway]
    done = await asyncio.to_thread(CliRunner().invoke, app, words)
    (place,) = [line.split()[1] for line in done.output.splitlines() if line.startswith("Report: ")]
    assert Path(place) == folder.path / "load.md"
    assert folder.has("load.md")
