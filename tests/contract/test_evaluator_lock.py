"""Two measurements never run at once, whether the command line or the service runs them."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evaluator.__main__ import app
from evaluator.runs.measurement_lock import MeasurementRunning, measuring
from evaluator.runs.run_folder import RunFolder
from evaluator.service.jobs import ExperimentRunning, Jobs
from evaluator.service.served_files import MessagePaths, ServedDatasets
from tests.support.small_runs import planned

HOLDER = """
import sys
from pathlib import Path
from evaluator.runs.measurement_lock import measuring
with measuring(Path(sys.argv[1])) as lock:
    lock.name("20260101T000000000Z-first")
    print("held", flush=True)
    sys.stdin.read()
"""
SAID = "20260101T000000000Z-first"


def test_a_second_measurement_is_refused_by_the_name_of_the_first_until_its_process_is_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(MeasurementRunning, match=SAID), measuring(tmp_path):
            pass
        first.kill()
    with measuring(tmp_path):
        pass


@pytest.mark.parametrize("command", ["run", "load", "ingest", "rank", "parity"])
def test_commands_that_send_load_are_refused_and_say_which_run_is_at_work(tmp_path: Path, command: str) -> None:
    experiment = tmp_path / "small.json"
    experiment.write_text(planned(tmp_path).model_dump_json())
    folder = RunFolder.create(tmp_path / "runs", planned(tmp_path))
    words = {
        "load": [str(experiment), "--rate", "5"],
        "rank": ["--run", str(folder.path)],
        "parity": ["beir", planned(tmp_path).dataset, "--published", "0.500", "--wait", "0"],
    }.get(command, [str(experiment)])
    with measuring(folder.runs) as lock:
        lock.name(SAID)
        done = CliRunner().invoke(app, [command, *words, "--runs", str(folder.runs)])
    assert (done.exit_code, SAID in done.output) == (1, True), done.output


def jobs_in(directory: Path) -> Jobs:
    return Jobs(
        directory / "runs", "http://127.0.0.1:9", ServedDatasets([directory]), MessagePaths([directory / "runs"])
    )


async def test_the_service_starts_no_experiment_while_the_command_line_measures(tmp_path: Path) -> None:
    jobs, experiment = jobs_in(tmp_path), planned(tmp_path)
    with measuring(tmp_path / "runs") as lock:
        lock.name(SAID)
        with pytest.raises(ExperimentRunning, match=SAID):
            jobs.start(experiment)
    assert RunFolder.every(tmp_path / "runs") == []


async def test_an_experiment_of_the_service_holds_the_lock_until_it_has_ended(tmp_path: Path) -> None:
    jobs = jobs_in(tmp_path)
    state = jobs.start(planned(tmp_path))
    with pytest.raises(MeasurementRunning, match=f"{state.id} is running in "), measuring(tmp_path / "runs"):
        pass
    await jobs.close()
    with measuring(tmp_path / "runs"):
        pass
