"""On a full disk a command ends in one sentence that names the file, and leaves no part of it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.files.disk_writes import whole_file, write_whole
from tests.contract.test_evaluator_cli import ROOT, evaluator
from tests.support.forks import Forks, forks
from tests.support.gateway_stub import GatewayStub, write_shop

__all__ = ["evaluator"]  # fixtures
PATH = {"PATH": "/usr/bin:/bin"}
IMPORTS = ("evaluator.commands.steps", "gateway.app", "services.keys.keys_command")


@pytest.fixture(scope="module")
def processes() -> Iterator[Forks]:
    with forks() as server:
        yield server


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part") or ".new" in path.name]


@pytest.fixture
def environment(gateway: str, tmp_path: Path) -> dict[str, str]:
    write_shop(tmp_path / "shop")
    return PATH | {
        "GATEWAY_URL": gateway,
        "EVALUATOR_RUNS": str(tmp_path / "runs"),
        "DATASET": str(tmp_path / "shop"),
        "PIPELINES": "bm25,dense",
        "NUMBA_DISABLE_JIT": "1",
    }


@pytest.mark.parametrize("file_bytes", [100, 1_000, 3_000])
def test_a_run_ends_in_one_sentence_that_names_the_file(
    processes: Forks, environment: dict[str, str], tmp_path: Path, file_bytes: int
) -> None:
    done = processes.run(("evaluator", "run", "demo"), IMPORTS, environment, file_bytes)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"evaluator: {tmp_path / 'runs'}/" in done.stderr.splitlines()[-1]
    assert "File too large" in done.stderr.splitlines()[-1]
    assert not parts(tmp_path)


def test_a_run_that_could_not_begin_leaves_no_folder(
    processes: Forks, environment: dict[str, str], tmp_path: Path
) -> None:
    assert processes.run(("evaluator", "ingest", "demo"), IMPORTS, environment, 100).returncode == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".measurement.lock"]


def test_an_export_names_the_file_that_it_could_not_write(
    processes: Forks, environment: dict[str, str], tmp_path: Path, stub: GatewayStub
) -> None:
    assert processes.run(("evaluator", "run", "demo"), IMPORTS, environment).returncode in (0, 3)
    done = processes.run(("evaluator", "export", "--to", str(tmp_path / "out")), IMPORTS, environment, 10)
    assert (done.returncode, done.stderr) == (1, f"evaluator: {tmp_path / 'out'}/judgments.qrels: File too large\n")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "words", [("evaluator", "datasets", "list"), ("evaluator", "--help"), ("gateway", "keys", "list", "--file", "KEYS")]
)
def test_output_to_a_full_device_is_one_sentence(processes: Forks, tmp_path: Path, words: tuple[str, ...]) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"version": 1, "keys": []}))
    command = [word.replace("KEYS", str(keys)) for word in words]
    done = processes.run(command, IMPORTS, PATH, stdout="/dev/full")
    name = words[1] if words[0] == "gateway" else words[0]
    assert (done.returncode, done.stderr.rstrip(".\n")) == (1, f"{name}: standard output: No space left on device")


def test_a_reader_that_has_closed_the_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m evaluator datasets list | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_key_that_cannot_be_written_names_the_file(processes: Forks, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    done = processes.run(("gateway", "keys", "new", "--name", "me", "--file", str(keys)), IMPORTS, PATH, 10)
    assert (done.returncode, done.stderr) == (1, f"keys: {keys}: File too large.\n")
    assert not list(tmp_path.iterdir())


def test_a_new_key_that_nobody_could_read_is_not_kept(processes: Forks, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    command = ("gateway", "keys", "new", "--name", "me", "--file", str(keys))
    done = processes.run(command, IMPORTS, PATH, stdout="/dev/full")
    assert (done.returncode, done.stderr.rstrip(".\n")) == (1, "keys: standard output: No space left on device")
    assert json.loads(keys.read_text())["keys"] == []


def test_a_write_that_fails_leaves_the_old_file_and_names_it(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    write_whole(file, "old")
    with pytest.raises(ZeroDivisionError), whole_file(file) as opened:
        opened.write(str(1 / 0))
    assert ([path.name for path in tmp_path.iterdir()], file.read_text()) == (["report.json"], "old")
    with pytest.raises(OSError, match="gone/report") as missing:
        write_whole(tmp_path / "gone" / "report.json", "new")
    assert missing.value.filename == str(tmp_path / "gone" / "report.json")


def test_a_link_is_followed_and_a_device_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "file").write_text("old")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"
    with pytest.raises(OSError, match="/dev/full"):
        write_whole(Path("/dev/full"), "x")
