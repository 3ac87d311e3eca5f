"""`make install` makes .venv with the newest Python that fits, and says in a sentence what to do when none does.

The Makefile runs as it is, on a PATH of its own: each Python there is this one, told which version to be.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.local.choices import ROOT

TOOLS = ("bash", "grep", "make", "mkdir", "cp", "touch", "seq", "rm", "chmod")

# What stands for a Python: its version, whether Debian has split the venv module off, and where it is installed.
PYTHON = """#!{bash}
case $1 in
-c) exec {real} -c 'import sys
code, version, sys.base_prefix, venv = sys.argv[1:]
sys.version_info = tuple(map(int, version.split(".")))
if venv == "split off":
    sys.modules["ensurepip"] = None
exec(code)' "$2" {version} {prefix} "{venv}" ;;
-m)
	[[ $2 == venv ]] || exit 0
	for folder; do :; done
	rm -rf "$folder"
	mkdir -p "$folder/bin"
	cp "$0" "$folder/bin/python"
	printf '#!{bash}\\necho uv "$@"\\n' > "$folder/bin/uv"
	chmod +x "$folder/bin/uv" ;;
esac
"""


class Machine:
    """A checkout with the Makefile in it, and a PATH with nothing on it but tools and the Pythons put there."""

    def __init__(self, root: Path) -> None:
        self.checkout = root / "checkout"
        self.path = [root / "first", root / "second"]
        for folder in (*self.path, root / "tools", self.checkout / "deploy"):
            folder.mkdir(parents=True)
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (root / "tools" / tool).symlink_to(found)
        self.tools = root / "tools"
        for name in ("Makefile", "pyproject.toml", "deploy/environment.sh"):
            shutil.copy2(ROOT / name, self.checkout / name)
        (self.checkout / "requirements.lock").write_text("uv==0.9.0\n")

    def add(self, name: str, version: str, *, on: int = 0, venv: str = "there") -> Path:
        """Puts a Python on the PATH under this name, installed at `/opt/<version>`."""
        file = self.path[on] / name
        bash = shutil.which("bash")
        file.write_text(
            PYTHON.format(bash=bash, real=sys.executable, version=version, prefix=f"/opt/{version}", venv=venv)
        )
        file.chmod(0o755)
        return file

    def add_dead_shim(self, name: str) -> None:
        """What pyenv leaves for a version that is installed but not chosen."""
        file = self.path[0] / name
        file.write_text(f"#!{shutil.which('bash')}\necho 'pyenv: {name}: command not found' >&2\nexit 127\n")
        file.chmod(0o755)

    def make(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`make install`, with everything printed in `stdout`."""
        return subprocess.run(
            ["make", "install", *arguments],
            cwd=self.checkout, env={"PATH": ":".join(map(str, (*self.path, self.tools)))}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False,
        )  # fmt: skip

    def ten_seconds_pass(self) -> None:
        """Makes every file older: `make` sees no change within one tick of the file system's clock."""
        for file in (file for file in self.checkout.rglob("*") if not file.is_symlink()):
            found = file.stat()
            os.utime(file, ns=(found.st_atime_ns, found.st_mtime_ns - 10 * 10**9))

    @property
    def chosen(self) -> str:
        """The version of the Python in .venv."""
        text = (self.checkout / ".venv/bin/python").read_text()
        return text.rpartition("/opt/")[2].split()[0]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize("version", ["3.11.2", "3.14.0"])
def test_every_python_from_3_11_to_3_14_will_do(machine: Machine, version: str) -> None:
    machine.add("python3", version)
    told = machine.make()
    assert told.returncode == 0, told.stdout
    assert machine.chosen == version
    assert f"with Python {version} ({machine.path[0]}/python3)" in told.stdout


def test_the_newest_that_fits_is_taken_whatever_it_is_called(machine: Machine) -> None:
    for name, version in (("python3.11", "3.11.9"), ("python3.15", "3.15.0"), ("python3", "3.13.5")):
        machine.add(name, version)
    assert machine.make().returncode == 0
    assert machine.chosen == "3.13.5"


def test_a_shim_that_does_not_run_is_passed_over_and_so_is_not_the_python_behind_it(machine: Machine) -> None:
    machine.add_dead_shim("python3.13")
    machine.add("python3.12", "3.12.1")
    machine.add("python3.13", "3.13.0", on=1)
    assert machine.make().returncode == 0
    assert machine.chosen == "3.13.0"


def test_without_a_python_that_fits_it_is_said_what_is_needed_and_what_there_is(machine: Machine) -> None:
    assert "apt-get install python3 python3-venv" in machine.make().stdout
    machine.add("python3", "3.9.2")
    told = machine.make()
    assert told.returncode != 0
    assert "needs Python 3.11 to 3.14" in told.stdout
    assert f"3.9.2 ({machine.path[0]}/python3)" in told.stdout
    assert "PYTHON=" in told.stdout


def test_a_python_without_its_venv_module_is_told_by_the_package_that_is_missing(machine: Machine) -> None:
    machine.add("python3", "3.13.5", venv="split off")
    told = machine.make()
    assert told.returncode != 0
    assert "apt-get install python3.13-venv" in told.stdout
    assert not (machine.checkout / ".venv").exists()


@pytest.mark.parametrize(
    ("name", "said"), [("python3.9", "python3.9 is Python 3.9.2; 3.11 to 3.14"), ("snake", "PYTHON=snake does not run")]
)
def test_a_named_python_that_will_not_do_is_refused_by_name(machine: Machine, name: str, said: str) -> None:
    machine.add("python3.9", "3.9.2")
    machine.add("python3.13", "3.13.5")
    told = machine.make(f"PYTHON={name}")
    assert told.returncode != 0
    assert said in told.stdout


def test_a_named_python_that_is_too_new_is_tried_and_said_to_be(machine: Machine) -> None:
    machine.add("python3.15", "3.15.0")
    assert machine.make().returncode != 0
    told = machine.make("PYTHON=python3.15")
    assert told.returncode == 0, told.stdout
    assert "3.15.0 is newer than 3.11 to 3.14" in told.stdout
    assert machine.make().returncode == 0, "it is kept"
    assert machine.chosen == "3.15.0"


def test_an_environment_that_works_stays_whatever_is_installed_since(machine: Machine) -> None:
    machine.add("python3.12", "3.12.1")
    machine.make()
    machine.add("python3.13", "3.13.5")
    for arguments in ((), ("PYTHON=python3.12",)):
        told = machine.make(*arguments)
        assert "Setting up" not in told.stdout
        assert "uv pip install" not in told.stdout
        assert machine.chosen == "3.12.1"


def test_naming_another_python_makes_the_environment_anew_and_installs_into_it(machine: Machine) -> None:
    machine.add("python3.12", "3.12.1")
    machine.make()
    told = machine.make(f"PYTHON={machine.add('python3.13', '3.13.5')}")
    assert machine.chosen == "3.13.5"
    assert "uv pip install" in told.stdout


def test_a_changed_lock_is_installed_into_the_environment_that_is_there(machine: Machine) -> None:
    machine.add("python3", "3.11.2")
    machine.make()
    machine.add("python3.13", "3.13.5")
    machine.ten_seconds_pass()
    (machine.checkout / "requirements.lock").write_text("uv==0.9.1\n")
    told = machine.make()
    assert "Setting up" not in told.stdout
    assert "uv pip install" in told.stdout
    assert machine.chosen == "3.11.2"
