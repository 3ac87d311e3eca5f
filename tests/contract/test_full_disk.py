"""On a full disk a command ends in one sentence that names the file, and leaves no part of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from services.files.disk_writes import whole_file, write_whole
from tests.contract.test_evaluator_cli import ROOT, evaluator, stub, url
from tests.support.gateway_stub import GatewayStub, write_shop

__all__ = ["evaluator", "stub", "url"]  # fixtures
LIMITED = (
    "import resource, runpy, signal, sys; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2); "
    "sys.argv = sys.argv[2:]; runpy.run_module(sys.argv[0], run_name='__main__', alter_sys=True)"
)


def limited(file_bytes: int, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a module in a process whose files hold so many bytes at most: a write beyond that fails."""
    return subprocess.run(
        [sys.executable, "-B", "-c", LIMITED, str(file_bytes), *words],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.name.endswith(".part") or ".new" in path.name]


@pytest.fixture
def environment(url: str, tmp_path: Path) -> dict[str, str]:
    write_shop(tmp_path / "shop")
    return {
        "GATEWAY_URL": url,
        "EVALUATOR_RUNS": str(tmp_path / "runs"),
        "DATASET": str(tmp_path / "shop"),
        "PIPELINES": "bm25,dense",
        "NUMBA_DISABLE_JIT": "1",
    }


@pytest.mark.parametrize("file_bytes", [100, 1_000, 3_000])
def test_a_run_ends_in_one_sentence_that_names_the_file(
    environment: dict[str, str], tmp_path: Path, file_bytes: int
) -> None:
    done = limited(file_bytes, "evaluator", "run", "demo", **environment)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert f"evaluator: {tmp_path / 'runs'}/" in done.stderr.splitlines()[-1]
    assert "File too large" in done.stderr.splitlines()[-1]
    assert not parts(tmp_path)


def test_a_run_that_could_not_begin_leaves_no_folder(environment: dict[str, str], tmp_path: Path) -> None:
    assert limited(100, "evaluator", "ingest", "demo", **environment).returncode == 1
    assert [path.name for path in (tmp_path / "runs").iterdir()] == [".measurement.lock"]


def test_an_export_names_the_file_that_it_could_not_write(
    environment: dict[str, str], tmp_path: Path, stub: GatewayStub
) -> None:
    assert limited(10**9, "evaluator", "run", "demo", **environment).returncode in (0, 3)
    done = limited(10, "evaluator", "export", "--to", str(tmp_path / "out"), **environment)
    assert (done.returncode, done.stderr) == (1, f"evaluator: {tmp_path / 'out'}/judgments.qrels: File too large\n")
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "words",
    [("evaluator", "datasets", "list"), ("evaluator", "--help"), ("gateway", "keys", "list", "--file", "KEYS")],
)
def test_output_to_a_full_device_is_one_sentence(tmp_path: Path, words: tuple[str, ...]) -> None:
    keys = tmp_path / "keys.json"
    keys.write_text(json.dumps({"version": 1, "keys": []}))
    command = [sys.executable, "-m", *(word.replace("KEYS", str(keys)) for word in words)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    name = words[1] if words[0] == "gateway" else words[0]
    assert (done.returncode, done.stderr.rstrip(".\n")) == (1, f"{name}: standard output: No space left on device")


def test_a_reader_that_has_closed_the_pipe_is_no_error() -> None:
    command = f"{sys.executable} -m evaluator datasets list | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_new_key_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    done = limited(10, "gateway", "keys", "new", "--name", "me", "--file", str(keys))
    assert (done.returncode, done.stderr) == (1, f"keys: {keys}: File too large.\n")
    assert not list(tmp_path.iterdir())


def test_a_new_key_that_nobody_could_read_is_not_kept(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    command = [sys.executable, "-m", "gateway", "keys", "new", "--name", "me", "--file", str(keys)]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
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
