"""Measures the CPU share of other processes during a measurement, from /proc/stat and our own processes' clocks."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # ships no types

# Turns with more foreign load are marked: their wall times say little.
FOREIGN_LIMIT = 0.10


@dataclass(frozen=True, slots=True)
class CpuReading:
    """Seconds of all cores together, since a fixed time."""

    wall_s: float
    busy_s: float  # of all processes, time stolen by a hypervisor included
    own_s: float  # of this process, of its children and of theirs


def read_cpu() -> CpuReading:
    """Reads the clocks now; costs less than a millisecond."""
    own = psutil.Process()
    return CpuReading(time.monotonic(), busy_s(), sum(_cpu_s(each) for each in (own, *own.children(recursive=True))))


def foreign_share(before: CpuReading, after: CpuReading, cores: int) -> float:
    """Returns the share of all cores, 0 to 1, used by other processes. Clocks tick in 10 ms: short spans are noisy."""
    others = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, others / (cores * (after.wall_s - before.wall_s))))


def busy_s(stat: Path = Path("/proc/stat")) -> float:
    """Reads CPU seconds of all cores since boot, without idle time and waiting for disks."""
    user, nice, system, _idle, _wait, irq, softirq, steal = map(
        int, stat.read_text(encoding="utf-8").splitlines()[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _cpu_s(process: psutil.Process) -> float:
    try:
        used = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(used.user + used.system)
