"""What `make clean` lists and removes, and what it never touches."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploy.elasticsearch.data_lock import lock_data_directory
from deploy.local.choices import choose
from deploy.local.leftovers import leftovers
from deploy.local.problem import StackProblem
from deploy.local.stacks import CHOSEN, exclusive
from deploy.local.supervision import configuration
from evaluator.machine.measured_processes import record_stack

URL = "http://127.0.0.1:8099"


def aged(path: Path, days: float) -> Path:
    """Makes a folder with a file of 100 kB, both last changed so many days ago."""
    path.mkdir(parents=True)
    (path / "file").write_bytes(bytes(100_000))
    for place in (path / "file", path):
        os.utime(place, (time.time() - days * 86_400,) * 2)
    return path


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "runs", tmp_path / "data"


def listed(places: tuple[Path, Path], **environment: str) -> set[str]:
    return {leftover.places[0].name for leftover in leftovers(*places, environment)}


def test_old_runs_beyond_the_newest_are_listed_and_the_latest_and_grades_never(places: tuple[Path, Path]) -> None:
    runs, _ = places
    names = [aged(runs / f"2026100{day}T000000000Z-demo-0", 40 - day).name for day in range(1, 6)]
    aged(runs / "judging" / "20260101T000000000Z-demo", 99)
    (runs / "latest").symlink_to(names[1])
    (runs / names[0] / "file").write_bytes(b"changed today")
    assert listed(places) == set()
    assert listed(places, KEEP="1") == set(names[2:4])
    assert listed(places, KEEP="0", DAYS="0") == {names[0], *names[2:4]}
    runs.rename(runs.with_name("disk"))
    runs.symlink_to("disk")
    assert listed(places, KEEP="1") == set(names[2:4])
    for days in ("soon", "²"):
        with pytest.raises(StackProblem, match=f"DAYS={days}"):
            listed(places, DAYS=days)


def test_data_of_a_stack_that_is_configured_runs_or_is_another_ones_are_never_listed(places: tuple[Path, Path]) -> None:
    _, data = places
    for name in ("demo", "up", "up-started", "up-runs", "up-searched", "elasticsearch", "mine", "uploads"):
        aged(data / name, 40)
    (data / "up" / CHOSEN).write_text("{}")
    (data / "up-searched" / "elasticsearch").mkdir()
    for name in ("up-started", "up-searched"):
        os.utime(data / name, (time.time() - 40 * 86_400,) * 2)
    lock = lock_data_directory(data / "up-searched" / "elasticsearch", timeout_s=0)
    conf = data / "up-runs" / "supervisord.conf"
    waiting = "import time; print(flush=True); time.sleep(600)"
    running = subprocess.Popen([sys.executable, "-c", waiting, str(conf)], stdout=subprocess.PIPE)
    assert running.stdout is not None
    try:
        running.stdout.readline()  # its command line is empty for a moment
        (data / "up-runs" / "supervisord.pid").write_text(str(running.pid))
        assert listed(places, DAYS="0") == {"demo", "up-started"}
        assert listed(places, DAYS="0", STACK="runs") == {"demo", "up-started"}
    finally:
        running.kill()
        running.communicate()
        os.close(lock)
    assert listed(places, DAYS="0") == {"demo", "up-started", "up-runs", "up-searched"}


def test_the_stack_that_is_named_is_removed_with_its_size_said_unless_it_is_taken_meanwhile(
    places: tuple[Path, Path],
) -> None:
    _, data = places
    (aged(data / "up-old", 1) / CHOSEN).write_text("{}")
    (found,) = leftovers(*places, {"STACK": "old"})
    assert (0.1 <= found.megabytes < 0.2, found.days < 0.1) == (True, True)
    with exclusive(data / "up-old", "?"), pytest.raises(StackProblem, match="in use"):
        found.remove()
    assert (data / "up-old" / "file").exists()
    found.remove()
    assert not (data / "up-old").exists()
    aged(data / "up-older", 40)
    (once,) = leftovers(*places, {"STACK": "older"})
    assert once.places == (data / "up-older",)
    with pytest.raises(StackProblem, match="has no data"):
        list(leftovers(*places, {"STACK": "nobodys"}))


def test_the_record_of_a_stack_that_has_ended_goes_and_that_of_one_that_runs_stays(places: tuple[Path, Path]) -> None:
    runs, _ = places
    record_stack(runs, URL, os.getpid())
    assert listed(places, DAYS="0") == set()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as ended:
        record_stack(runs, URL, ended.pid)
    (found,) = leftovers(*places, {"DAYS": "0"})
    found.remove()
    assert list(runs.rglob("*.json")) == []


def test_without_yes_nothing_is_removed(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    old, new = (aged(runs / f"2026100{day}T000000000Z-demo-0", 40) for day in (1, 2))
    environment = {**os.environ, "EVALUATOR_RUNS": str(runs), "KEEP": "1", "DAYS": "30", "YES": "", "STACK": ""}
    command = [sys.executable, "-m", "deploy.local", "clean"]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stderr
    assert (str(old) in said, str(new) in said, "Nothing was removed" in said, old.exists()) == (
        True,
        False,
        True,
        True,
    )


def test_every_log_of_a_stack_is_bounded(tmp_path: Path) -> None:
    written = configuration(choose({"LEXICAL": "elasticsearch"}, tmp_path, own_ports=True))
    logs = written.count("logfile=")
    assert logs == written.count("logfile_maxbytes=10MB") == written.count("logfile_backups=2") > 5
