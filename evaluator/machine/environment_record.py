"""Records where and how a measurement ran: time, command, commit, versions and machine. Does not measure anything."""

import contextlib
import functools
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import FiniteFloat

from evaluator.machine.machine_conditions import MachineCounters
from services.contracts.base import Count, Wire

ROOT = Path(__file__).resolve().parents[2]
# nvidia-smi starts the driver where nothing else has: seconds on a machine of several GPUs.
GPUS_WITHIN_S = 10.0


class Gpu(Wire):
    """A GPU, as nvidia-smi names it."""

    name: str
    memory_mib: Count | None  # null: it shares the memory of the machine

    @property
    def in_words(self) -> str:
        return self.name if self.memory_mib is None else f"{self.name} ({self.memory_mib} MiB)"


class Machine(Wire):
    """A machine, as far as the operating system describes it."""

    system: str
    cpu: str
    cores: Count  # that this process may use
    memory_bytes: Count
    # Empty or null too in the records of earlier releases.
    gpus: tuple[Gpu, ...] = ()  # empty: none, or nvidia-smi reports none
    cpu_limit: FiniteFloat | None = None  # in cores, of the cgroup (version 2); null: none, or it is not reported

    @property
    def extras(self) -> tuple[str, ...]:
        """What else decides the speed, in words: CPU limit, GPUs; without what is unknown."""
        known = [] if self.cpu_limit is None else [f"CPU limit {self.cpu_limit:g} cores"]
        return (*known, *(f"GPU {gpu.in_words}" for gpu in self.gpus))

    @property
    def in_words(self) -> str:
        """Processor, cores and `extras`."""
        return ", ".join([self.cpu, f"{self.cores} cores", *self.extras])


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

    A package that is not installed is left out; without git or a repository, commit and state are None. Commit,
    packages, processor and GPUs are those of the first call: a later change does not reach a process that runs.
    """
    commit, dirty = git_state(ROOT)
    return Environment(
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages=dict(_versions(tuple(packages))),
        machine=describe_machine(cores),
    )


def describe_machine(cores: int | None = None, counters: MachineCounters | None = None) -> Machine:
    """Describes this machine. `cores`: how many this process uses, if not all that it may. `counters`: of tests."""
    counters = counters or MachineCounters()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return Machine(
        system=platform.platform(),
        cpu=_cpu(),
        cores=cores or allowed,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        gpus=_gpus(),
        cpu_limit=_cpu_limit(counters),
    )


@functools.cache
def git_state(root: Path) -> tuple[str | None, bool | None]:
    """Returns the commit of a checkout and whether tracked files differ from it; None for what git does not report."""

    def ask(*arguments: str) -> str | None:
        # Else `status` writes the index again, and one that is killed by the timeout leaves its lock behind.
        command = ["git", "--no-optional-locks", *arguments]
        try:
            done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):  # no git here
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, status = ask("rev-parse", "HEAD"), ask("status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)


@functools.cache
def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return platform.machine()


def _gpus() -> tuple[Gpu, ...]:
    """Asks nvidia-smi; empty where there is none, and where it fails or does not answer."""
    program = shutil.which("nvidia-smi")
    try:
        return () if program is None else _gpus_by(program)
    except (OSError, subprocess.SubprocessError):
        return ()


@functools.cache
def _gpus_by(program: str) -> tuple[Gpu, ...]:
    """Asks this nvidia-smi until it has answered once. Raises OSError and SubprocessError where it fails."""
    command = [program, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=GPUS_WITHIN_S, check=True)
    rows = [line.rpartition(",") for line in done.stdout.splitlines()]
    return tuple(
        Gpu(name=name.strip(), memory_mib=int(memory) if memory.strip().isdecimal() else None)
        for name, _, memory in rows
        if name
    )


def _cpu_limit(counters: MachineCounters) -> float | None:
    """Returns the least limit of the cgroup (version 2) of this process and of those above it."""
    lines = (_read(counters.proc / "self" / "cgroup") or "").splitlines()
    own = next((Path(line.removeprefix("0::/")) for line in lines if line.startswith("0::/")), None)
    if own is None:
        return None
    limits = []
    for group in (own, *own.parents):
        # `max 100000`, or `150000 100000`: microseconds of CPU time in each period. The root has none.
        quota, _, period = (_read(counters.cgroups / group / "cpu.max") or "max").partition(" ")
        if quota != "max":
            limits.append(int(quota) / int(period))
    return min(limits, default=None)


def _read(file: Path) -> str | None:
    """Returns the content of a file of the kernel without the end of its line; None where there is none."""
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except OSError:
        return None


@functools.cache
def _versions(packages: tuple[str, ...]) -> dict[str, str]:
    versions = {}
    for name in packages:
        with contextlib.suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
