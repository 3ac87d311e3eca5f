"""Directories that root gives to the server's user: nothing outside of them is given away, whatever that user does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.elasticsearch.account import Account, make_private_directory, remove_tree
from deploy.elasticsearch.problem import SetupProblem
from tests.support.processes import ROOT

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
# Numbers suffice to own a file: no such user has to exist.
NOBODY = Account(name="nobody", uid=65_534, gid=65_534)

# An audit hook runs right before each call that opens, lists, removes or gives away: there it acts as a process of the
# server's user that wins the race. One run for each such call, with the swap at that call.
RACE = """
import json, os, shutil, sys
from pathlib import Path
from deploy.elasticsearch.account import Account, make_private_directory, remove_tree

scene, act = Path(sys.argv[1]), sys.argv[2]
WATCHED = {"open", "os.scandir", "os.listdir", "os.chown", "os.chmod", "os.remove", "os.rmdir"}
calls, swap_at, armed = 0, 0, False

def hook(event, _):
    global calls, armed
    if armed and event in WATCHED:
        calls += 1
        if calls == swap_at:
            armed = False
            inner = scene / "given" / "inner"
            if inner.is_dir():
                inner.rename(scene / "aside")
                inner.symlink_to(scene / "victim")
            armed = True

def state():
    return {str(p.relative_to(scene)): p.lstat().st_uid for p in sorted((scene / "victim").rglob("*"))} | {
        "victim": (scene / "victim").stat().st_uid, "mode": (scene / "victim").stat().st_mode}

sys.addaudithook(hook)
lost, rounds = [], 0
while calls >= swap_at:
    shutil.rmtree(scene, ignore_errors=True)
    (scene / "victim" / "deep").mkdir(parents=True)
    (scene / "victim" / "deep" / "file").write_text("root's")
    (scene / "victim" / "file").write_text("root's")
    (scene / "given" / "inner" / "deep").mkdir(parents=True)
    (scene / "given" / "inner" / "deep" / "file").write_text("the user's")
    (scene / "given" / "inner" / "file").write_text("the user's")
    before = state()
    calls, swap_at, armed = 0, swap_at + 1, True
    try:
        if act == "give":
            make_private_directory(scene / "given", Account("nobody", 65534, 65534))
        else:
            remove_tree(scene / "given")
    except OSError:
        pass  # it may give up; it may not follow
    armed = False
    rounds += 1
    if state() != before:
        lost.append(swap_at)
print(json.dumps({"rounds": rounds, "lost": lost}))
"""


@pytest.mark.parametrize("act", ["give", "remove"])
def test_a_directory_that_becomes_a_link_at_any_moment_is_not_followed(tmp_path: Path, act: str) -> None:
    race = subprocess.run(
        [sys.executable, "-c", RACE, str(tmp_path / "scene"), act], cwd=ROOT, capture_output=True, text=True, check=True
    )
    outcome = json.loads(race.stdout)
    assert outcome["rounds"] > 8
    assert outcome["lost"] == []


def test_a_private_directory_belongs_with_its_content_to_the_user_alone(tmp_path: Path) -> None:
    given = tmp_path / "given"
    (given / "inner").mkdir(parents=True)
    (given / "inner" / "file").touch()
    assert make_private_directory(given, NOBODY) == given
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (given, *given.rglob("*"))} == {(65_534, 65_534)}
    assert given.stat().st_mode & 0o777 == 0o700


def test_a_hard_link_to_a_file_of_root_is_refused(tmp_path: Path) -> None:
    given, secret = tmp_path / "given", tmp_path / "secret"
    given.mkdir()
    secret.touch(mode=0o600)
    (given / "harmless").hardlink_to(secret)
    with pytest.raises(SetupProblem, match=r"harmless.*hard link"):
        make_private_directory(given, NOBODY)
    assert secret.stat().st_uid == 0


def test_links_and_pipes_inside_are_left_alone(tmp_path: Path) -> None:
    given, secret = tmp_path / "given", tmp_path / "secret"
    given.mkdir()
    secret.touch(mode=0o600)
    (given / "link").symlink_to(secret)
    (given / "folder").symlink_to(tmp_path)
    os.mkfifo(given / "pipe")
    make_private_directory(given, NOBODY)
    assert secret.stat().st_uid == tmp_path.stat().st_uid == 0


def test_a_link_in_place_of_a_private_directory_is_refused(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir(mode=0o755)
    (tmp_path / "given").symlink_to(victim)
    with pytest.raises(SetupProblem, match="directory"):
        make_private_directory(tmp_path / "given", NOBODY)
    assert (victim.stat().st_uid, victim.stat().st_mode & 0o777) == (0, 0o755)
    with pytest.raises(SetupProblem, match="directory"):
        remove_tree(tmp_path / "given")
    assert victim.exists()
