"""A load that is disturbed while it runs says so: real generators send to a real server, and a test is in their way."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.points.point_report import LoadPointReport
from evaluator.load.sending.drives import HEAD_START_S, run_point
from evaluator.machine.environment_record import describe_machine
from tests.soak.agreement import fixed_time_stub, stub_target
from tests.support.load_points import reported_point

pytestmark = [
    pytest.mark.integration,
    pytest.mark.alone,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]
PROC = Path("/proc")
RATE, SECONDS = 100.0, 4.0
STOPPED_S = 0.3
# From opening its clock, a generator sends after its head start.
WARM_S = 2 * HEAD_START_S
# Ends by itself should nobody end it.
BURN = "import time; end = time.monotonic() + 100\nwhile time.monotonic() < end: pass"
# The shell ends at once: what it leaves is no descendant of this process, whose CPU time would count as measured.
LEAVE = '"$0" -c "$1" </dev/null >/dev/null 2>&1 & echo $!'


async def driven(*, stop_the_generator: bool = False) -> LoadPointReport:
    """Returns the figures of a load of a server that answers after 5 ms, whose generator may be stopped meanwhile."""
    plan = LoadPlan(rates=(RATE,), seconds=SECONDS, generators=1)
    async with fixed_time_stub() as url, asyncio.timeout(60):
        target = stub_target(url)
        load = asyncio.create_task(run_point(target, "bm25", RATE, SECONDS, plan, seed=1))
        if stop_the_generator:
            while (process := sending_generator()) is None:  # noqa: ASYNC110  # another process opens it
                await asyncio.sleep(0.02)
            await asyncio.sleep(WARM_S)
            with stopped(process):
                await asyncio.sleep(STOPPED_S)
        loaded = await load
    assert all(sample.error is None for sample in loaded.samples)
    return reported_point("bm25", loaded, RATE, SECONDS, target)


@contextmanager
def stopped(process: int) -> Iterator[None]:
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(process, signal.SIGCONT)


def sending_generator() -> int | None:
    """Returns the id of the generator, a child of this process, once it has opened its clock."""
    for folder in PROC.glob("[0-9]*"):
        if parent(folder) == os.getpid() and b"evaluator.load.sending.generator" in (folder / "cmdline").read_bytes():
            opened = []
            for file in (folder / "fd").iterdir():
                with suppress(FileNotFoundError):  # closed meanwhile
                    opened.append(os.readlink(file))
            return int(folder.name) if "anon_inode:[timerfd]" in opened else None
    return None


def parent(process: Path) -> int | None:
    """Returns the id of a process's parent; None when it has ended."""
    with suppress(OSError):
        return int((process / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return None


@contextmanager
def burning(cores: int) -> Iterator[None]:
    """Keeps cores busy with processes that are no descendants of this one; ends them by their ids."""
    command = ["/bin/sh", "-c", LEAVE, sys.executable, BURN]
    processes: list[int] = []
    try:
        for _ in range(cores):
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            processes.append(int(done.stdout))
        if any(parent(PROC / str(process)) == os.getpid() for process in processes):
            pytest.skip("orphans become children of this process, as in a container without an init")
        yield
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


async def test_a_generator_that_was_stopped_for_300_ms_makes_the_times_invalid_by_its_send_lag() -> None:
    point = await driven(stop_the_generator=True)
    assert not point.timing_valid
    assert any("after their planned time" in fault for fault in point.timing_faults), point.timing_faults
    # The first request of the pause is planned soon after its begin: there are 100 a second.
    assert point.generators.send_lag_max_ms is not None
    assert point.generators.send_lag_max_ms > 500 * STOPPED_S
    assert (point.latency_ms.p99.held_ms, point.service_ms.p99.held_ms) == (None, None)


async def test_foreign_processes_on_every_core_disturb_every_request_and_mark_the_times() -> None:
    here = describe_machine()
    usable = min(here.cores, here.cpu_limit or here.cores)
    if usable < 0.3 * (os.cpu_count() or 1):
        pytest.skip("most cores of this machine cannot be taken from here")
    with burning(here.cores):
        point = await driven()
    assert not point.timing_valid
    assert point.latency_ms.disturbed > 0.9
    assert "?" in point.latency_ms.p50.cell()
