"""Records where and how a measurement ran: time, command, commit, versions and machine. Does not measure anything."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from services.contracts.base import Count, Wire

ROOT = Path(__file__).resolve().parent.parent


class Machine(Wire):
    """A machine, as far as the operating system describes it."""

    system: str
    cpu: str
    cores: Count  # that this process may use
    memory_bytes: Count


class Environment(Wire):
    """All that is needed to run a measurement again, except its data and its own options."""

    started_utc: str
    command: str
    git_commit: str | None
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    machine: Machine


def collect_environment(packages: Sequence[str], cores: int | None = None) -> Environment:
    """Collects the environment of this process now. `cores`: how many it uses, if not all that it may.

    A package that is not installed is left out; without git or a repository, commit and state are None.
    """
    commit, dirty = git_state(ROOT)
    return Environment(
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages=_versions(packages),
        machine=describe_machine(cores),
    )


def describe_machine(cores: int | None = None) -> Machine:
    """Describes this machine. `cores`: how many this process uses, if not all that it may."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(
        system=platform.platform(),
        cpu=_cpu(),
        cores=cores or allowed,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Returns the commit of a checkout and whether tracked files differ from it; None for what git does not say."""

    def ask(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):  # no git here
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, status = ask("rev-parse", "HEAD"), ask("status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return platform.machine()


def _versions(packages: Sequence[str]) -> dict[str, str]:
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
