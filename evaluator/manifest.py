"""What must be known to believe or repeat a run: versions, hashes, seed, machine, commit, command."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import FiniteFloat

from evaluator.arms import Arm
from evaluator.datasets import Dataset, DatasetCounts
from evaluator.experiment import Experiment
from services.contracts.base import Count, Wire
from services.contracts.collections import CollectionState

PACKAGES = ("pydantic", "httpx", "httpx-aiohttp", "aiohttp", "ranx", "numba", "numpy")


class Machine(Wire):
    """Where the evaluator ran. On one machine the measured system and the one who measures share all of it."""

    host: str
    system: str
    cpu: str
    cores: Count  # that this process may use
    memory_bytes: Count
    load_1m: FiniteFloat  # before the first query


class Manifest(Wire):
    """Written before the first query."""

    started_utc: str
    command: str
    git_commit: str | None
    git_dirty: bool | None
    python: str
    packages: dict[str, str]
    machine: Machine
    gateway: str
    experiment: str  # fingerprint
    seed: Count
    dataset_sha256: dict[str, str]
    counts: DatasetCounts
    generation: str
    # By backend: engine, stamp (preset parameters, model, weights hash, …), counts, as the services declared them.
    backends: dict[str, CollectionState]
    pipelines: dict[str, str]  # name → fingerprint of what was sent


def describe(
    experiment: Experiment,
    dataset: Dataset,
    gateway: str,
    generation: str,
    backends: Mapping[str, CollectionState],
    arms: tuple[Arm, ...],
) -> Manifest:
    """Everything as it is now."""
    commit, dirty = _git()
    return Manifest(
        started_utc=datetime.now(UTC).isoformat(timespec="seconds"),
        command=shlex.join([Path(sys.orig_argv[0]).name, *sys.orig_argv[1:]]),
        git_commit=commit,
        git_dirty=dirty,
        python=platform.python_version(),
        packages=_versions(),
        machine=machine(),
        gateway=gateway,
        experiment=experiment.fingerprint,
        seed=experiment.seed,
        dataset_sha256=dict(dataset.hashes),
        counts=dataset.counts,
        generation=generation,
        backends=dict(backends),
        pipelines={arm.name: arm.pipeline.fingerprint for arm in arms},
    )


def machine() -> Machine:
    """This machine, as far as the operating system tells."""
    return Machine(
        host=platform.node(),
        system=platform.platform(),
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        load_1m=os.getloadavg()[0],
    )


def _cpu() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    return platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _git() -> tuple[str | None, bool | None]:
    root = Path(__file__).resolve().parent.parent

    def ask(*arguments: str) -> str | None:
        try:
            done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):  # no git here
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, status = ask("rev-parse", "HEAD"), ask("status", "--porcelain", "--untracked-files=no")
    return commit, None if status is None else bool(status)
