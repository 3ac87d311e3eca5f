"""Reads counters of the machine before and after a measurement, and computes which share of it others took meanwhile.

Sources: proc(5), the kernel's documents of pressure stall information and of cgroups v1 and v2. What the machine does
not report is None. Which limits make a time doubtful is here too; what follows from it is left to the callers.
"""

import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import FiniteFloat

from services.contracts.base import Count, Wire

# Above a tenth, foreign processes lengthen what is measured. A p99 is of one request in a hundred: time taken away
# altogether, by a hypervisor or a limit, is enough for it at a hundredth.
FOREIGN_LIMIT = 0.10
STEAL_LIMIT = 0.01
THROTTLED_LIMIT = 0.01


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """Where the counters lie; tests give others."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
    cores: Path = Path("/sys/devices/system/cpu")
    clock: Callable[[], float] = time.monotonic  # seconds, never back


@dataclass(frozen=True, slots=True)
class ConditionsReading:
    """Counters of the machine at one time, in seconds of all cores together unless stated otherwise."""

    at_s: float
    cores: int  # of the machine
    busy_s: float | None  # of all processes, without what a hypervisor took
    steal_s: float | None
    own_s: float | None  # of this process, of those named as measured, and of all their children
    throttled: dict[str, tuple[int, int]]  # by cgroup of these processes: periods, and those that hit the limit
    waiting_s: float | None  # in which a process was ready and had no core (wall time)
    frequency: float | None  # of the cores now, over the greatest that they have


class MachineConditions(Wire):
    """What happened on the machine between two readings, as shares of 0 to 1; null: the machine does not tell."""

    seconds: FiniteFloat
    cores: Count
    foreign: FiniteFloat | None  # of all cores, used by processes that were not measured
    steal: FiniteFloat | None  # of all cores, taken by a hypervisor
    throttled: FiniteFloat | None  # of the periods of the CPU limit: those in which the processes had used it up
    pressure: FiniteFloat | None  # of the time, in which some process waited for a core; our own among them
    frequency: FiniteFloat | None  # of the cores at the end, over the greatest that they have
    windows: Count = 0  # spans of some seconds into which the time was cut (machine_windows.py); 0: only the whole
    busy_windows: Count = 0  # of them, those in which foreign CPU, steal or throttling was beyond its limit


def read_conditions(
    measured: Collection[int] | None = (),
    counters: MachineCounters = MachineCounters(),  # frozen
) -> ConditionsReading:
    """Reads the counters now; takes a few milliseconds.

    `measured`: ids of the processes of the system under test on this machine. Their children and this process count as
    own without being named. None: they run here, and nobody knows which they are; then no CPU time counts as foreign.
    """
    own = None if measured is None else {os.getpid(), *measured}
    busy_s, steal_s, cores = _cores(counters.proc / "stat")
    return ConditionsReading(
        at_s=counters.clock(),
        cores=cores,
        busy_s=busy_s,
        steal_s=steal_s,
        own_s=None if own is None else _own_s(own, counters.proc),
        throttled=_throttled(own or {os.getpid()}, counters),
        waiting_s=_waiting_s(counters.proc / "pressure" / "cpu"),
        frequency=_frequency(counters.cores),
    )


def conditions_between(before: ConditionsReading, after: ConditionsReading) -> MachineConditions:
    """Returns the shares between two readings of the same processes. Clocks tick in 10 ms: short spans are noisy."""
    seconds = after.at_s - before.at_s
    spent, own = _difference(before.busy_s, after.busy_s), _difference(before.own_s, after.own_s)
    return MachineConditions(
        seconds=seconds,
        cores=after.cores,
        foreign=None if spent is None or own is None else _share(spent - own, after.cores * seconds),
        steal=_share(_difference(before.steal_s, after.steal_s), after.cores * seconds),
        throttled=_throttled_share(before.throttled, after.throttled),
        pressure=_share(_difference(before.waiting_s, after.waiting_s), seconds),
        frequency=after.frequency,
    )


def unchecked_foreign(conditions: Iterable[MachineConditions]) -> Iterator[str]:
    """Yields a remark where the machine reported its CPU time and nobody knew whose it was."""
    if any(one.foreign is None and one.steal is not None for one in conditions):
        yield (
            "foreign CPU unknown: this runs folder does not know the gateway's processes (`make up` records them), "
            "so other work was not checked"
        )


def condition_faults(conditions: MachineConditions) -> Iterator[str]:
    """Yields a sentence for each condition under which a time means little.

    Pressure and frequency are only reported: our own load raises the one, and no frequency is wrong in itself.
    """
    if conditions.foreign is not None and conditions.foreign > FOREIGN_LIMIT:
        yield f"other processes used {conditions.foreign:.0%} of the CPU (limit {FOREIGN_LIMIT:.0%})"
    if conditions.steal is not None and conditions.steal > STEAL_LIMIT:
        yield f"the hypervisor took {conditions.steal:.1%} of the CPU (steal, limit {STEAL_LIMIT:.0%})"
    if conditions.throttled is not None and conditions.throttled > THROTTLED_LIMIT:
        yield (
            f"the CPU limit of a cgroup stopped the processes in {conditions.throttled:.1%} of its periods "
            f"(throttling, limit {THROTTLED_LIMIT:.0%})"
        )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _share(part: float | None, whole: float) -> float | None:
    return None if part is None or whole <= 0 else min(1.0, max(0.0, part / whole))


def _throttled_share(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float | None:
    """Returns the share of the cgroup that was stopped most; a limit of a parent stops its children."""
    shares = []
    for group in before.keys() & after.keys():
        periods, stopped = (after[group][at] - before[group][at] for at in (0, 1))
        shares.append(stopped / periods if periods > 0 else 0.0)
    return max(shares, default=None)


def _cores(stat: Path) -> tuple[float | None, float | None, int]:
    """Reads CPU seconds since boot, without idle time and waiting for disks; steal; and the number of cores."""
    try:
        lines = stat.read_text(encoding="utf-8").splitlines()
    except OSError:  # not Linux
        return None, None, os.cpu_count() or 1
    user, nice, system, _idle, _wait, irq, softirq, steal = map(int, lines[0].split()[1:9])
    tick = os.sysconf("SC_CLK_TCK")
    cores = sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines)
    return (user + nice + system + irq + softirq) / tick, steal / tick, cores


def _own_s(roots: Collection[int], proc: Path) -> float | None:
    """Sums the CPU seconds of processes and their descendants; None where one of the `roots` has ended.

    The time of a child that ended stands with its parent, which has waited for it.
    """
    times = _times(proc)
    if not times.keys() >= set(roots):
        return None
    families, found = dict.fromkeys(roots), 0.0
    children: dict[int, list[int]] = {}
    for process, (parent, _) in times.items():
        children.setdefault(parent, []).append(process)
    waiting = list(families)
    while waiting:
        process = waiting.pop()
        found += times[process][1]
        new = [child for child in children.get(process, ()) if child not in families]
        families.update(dict.fromkeys(new))
        waiting += new
    return found


def _times(proc: Path) -> dict[int, tuple[int, float]]:
    """Reads of every process: its parent, and the CPU seconds of itself and of the children that it waited for."""
    tick, found = os.sysconf("SC_CLK_TCK"), {}
    for folder in proc.glob("[0-9]*"):  # none where this is no Linux
        if folder.name.isdigit():
            try:
                # After the command in parentheses: the parent is the 4th field of proc(5), the four times the 14th on.
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            found[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / tick)
    return found


def _throttled(processes: Collection[int], counters: MachineCounters) -> dict[str, tuple[int, int]]:
    """Reads the counters of the CPU limit of the processes' cgroups and of the groups above them."""
    found: dict[str, tuple[int, int]] = {}
    for process in processes:
        try:
            lines = (counters.proc / str(process) / "cgroup").read_text(encoding="utf-8").splitlines()
        except OSError:  # it has ended, or this is no Linux
            continue
        for line in lines:
            _, controllers, path = line.split(":", 2)
            # Version 2 has no list of controllers and lies at the root, or under `unified` beside version 1.
            if controllers and "cpu" not in controllers.split(","):
                continue
            for mount in ("cpu", "cpu,cpuacct") if controllers else ("", "unified"):
                here = Path(path.lstrip("/"))
                for group in (here, *here.parents):
                    file = counters.cgroups / mount / group / "cpu.stat"
                    if limit := _limit_counters(file):
                        found[str(file)] = limit
    return found


def _limit_counters(stat: Path) -> tuple[int, int] | None:
    try:
        values = dict(line.split() for line in stat.read_text(encoding="utf-8").splitlines())
    except OSError:
        return None
    # The root of version 2 has no limit, and so no such counters.
    return (int(values["nr_periods"]), int(values["nr_throttled"])) if "nr_throttled" in values else None


def _waiting_s(pressure: Path) -> float | None:
    try:
        lines = pressure.read_text(encoding="utf-8").splitlines()
    except OSError:  # a kernel without it, or started with psi=0
        return None
    return next((int(line.rpartition("total=")[2]) / 1e6 for line in lines if line.startswith("some ")), None)


def _frequency(cores: Path) -> float | None:
    """Returns the mean frequency of the cores over the greatest that they may have; virtual machines report neither."""
    shares = []
    for folder in sorted(cores.glob("cpu[0-9]*/cpufreq")):
        try:
            now, most = (int((folder / name).read_text()) for name in ("scaling_cur_freq", "cpuinfo_max_freq"))
        except OSError:
            continue
        shares.append(now / most)
    return sum(shares) / len(shares) if shares else None
