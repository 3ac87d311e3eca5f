"""Reads counters of the machine around a measurement and every few seconds of it, and computes what others took.

The windows of some seconds keep a busy part from being averaged away. Sources: proc(5), the kernel's documents of
cgroups v1 and v2. What the machine does not report is None. Defines the limits beyond which a time is
doubtful; callers decide what follows.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import FiniteFloat

from services.contracts.base import Count, Wire

# Above a tenth, foreign processes lengthen what is measured. A p99 is of one request in a hundred: time taken away
# altogether, by a hypervisor or a limit, is enough for it at a hundredth.
FOREIGN_LIMIT = 0.10
STEAL_LIMIT = 0.01
THROTTLED_LIMIT = 0.01
# A reading takes milliseconds. A slice of 7.5 s and the start of its generators have two windows.
WINDOW_S = 5.0
# The least length of a counted window: clocks tick in 10 ms, and a shorter one is noise.
LEAST_WINDOW_S = WINDOW_S / 2
# A p95 is of one request in twenty: what disturbs more of the time than that can decide it.
MOST_BUSY_WINDOWS = 0.05

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MachineCounters:
    """Where the counters lie; tests give others."""

    proc: Path = Path("/proc")
    cgroups: Path = Path("/sys/fs/cgroup")
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


class MachineConditions(Wire):
    """What happened on the machine between two readings, as shares of 0 to 1; null: the machine does not tell."""

    seconds: FiniteFloat
    cores: Count
    foreign: FiniteFloat | None  # of all cores, used by processes that were not measured
    steal: FiniteFloat | None  # of all cores, taken by a hypervisor
    throttled: FiniteFloat | None  # of the periods of the CPU limit: those in which the processes had used it up
    windows: Count = 0  # spans of some seconds into which the time was cut; 0: only the whole
    busy_windows: Count = 0  # of them, those in which foreign CPU, steal or throttling was beyond its limit


def read_conditions(
    measured: Collection[int] | None = (),
    counters: MachineCounters = MachineCounters(),  # frozen
) -> ConditionsReading:
    """Reads the counters now; takes a few milliseconds.

    `measured`: ids of the processes of the system under test on this machine. Their children and this process count as
    own without being named. None: they run here, unknown which; then no CPU time counts as foreign.
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
    )


def unchecked_foreign(conditions: Iterable[MachineConditions]) -> Iterator[str]:
    """Yields a remark where the CPU time of the machine could not be assigned to processes."""
    if any(part.foreign is None and part.steal is not None for part in conditions):
        yield (
            "foreign CPU unknown: this runs folder does not know the gateway's processes (`make up` records them), "
            "so other work was not checked"
        )


def condition_faults(conditions: MachineConditions) -> Iterator[str]:
    """Yields a sentence for each condition under which a time means little."""
    if conditions.foreign is not None and conditions.foreign > FOREIGN_LIMIT:
        yield f"other processes used {conditions.foreign:.0%} of the CPU (limit {FOREIGN_LIMIT:.0%})"
    if conditions.steal is not None and conditions.steal > STEAL_LIMIT:
        yield f"the hypervisor took {conditions.steal:.1%} of the CPU (steal, limit {STEAL_LIMIT:.0%})"
    if conditions.throttled is not None and conditions.throttled > THROTTLED_LIMIT:
        yield (
            f"the CPU limit of a cgroup stopped the processes in {conditions.throttled:.1%} of its periods "
            f"(throttling, limit {THROTTLED_LIMIT:.0%})"
        )


class ConditionsMeter:
    """Holds the readings of one measurement: the first, and the last one that ended a window."""

    def __init__(self, measured: Collection[int] | None, counters: MachineCounters | None = None) -> None:
        """`measured`: as in `read_conditions`. `counters`: of tests."""
        self._measured = measured
        self._counters = counters or MachineCounters()
        self._first = self._last = read_conditions(measured, self._counters)
        self._windows = self._busy = 0

    @property
    def due(self) -> bool:
        """Whether a window is over. What is timed in this process reads between two timings: it takes a while."""
        return self._counters.clock() - self._last.at_s >= WINDOW_S

    def read(self) -> MachineConditions:
        """Reads now, counts the window that ends, and returns the conditions since the beginning."""
        now = read_conditions(self._measured, self._counters)
        if now.at_s - self._last.at_s >= LEAST_WINDOW_S:
            self._windows += 1
            self._busy += _beyond(conditions_between(self._last, now))
            self._last = now
        whole = conditions_between(self._first, now)
        return whole.model_copy(update={"windows": self._windows, "busy_windows": self._busy})


async def metered(
    work: Awaitable[T], measured: Collection[int] | None, counters: MachineCounters | None = None
) -> tuple[T, MachineConditions]:
    """Awaits work and returns its result with the conditions meanwhile, read every `WINDOW_S` in this process."""
    meter = ConditionsMeter(measured, counters)
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WINDOW_S))[0]:
            meter.read()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    return task.result(), meter.read()


def joined_conditions(parts: Iterable[MachineConditions]) -> MachineConditions:
    """Returns the conditions of at least one part as of one measurement: means over the time, and all windows.

    A part without windows is a window.
    """
    given = tuple(parts)
    return MachineConditions(
        seconds=sum(part.seconds for part in given),
        cores=given[0].cores,
        foreign=_mean((part.foreign, part.seconds) for part in given),
        steal=_mean((part.steal, part.seconds) for part in given),
        throttled=_mean((part.throttled, part.seconds) for part in given),
        windows=sum(part.windows or 1 for part in given),
        busy_windows=sum(part.busy_windows if part.windows else _beyond(part) for part in given),
    )


def window_faults(conditions: MachineConditions) -> Iterator[str]:
    """Yields a sentence for each condition under which times mean little: of the whole, else of its windows."""
    whole = list(condition_faults(conditions))
    yield from whole
    busy, windows = conditions.busy_windows, conditions.windows
    if not whole and busy > MOST_BUSY_WINDOWS * windows:
        yield (
            f"in {busy} of {windows} windows of {WINDOW_S:g} s other processes, steal or throttling were beyond their "
            f"limits (at most {MOST_BUSY_WINDOWS:.0%} of the windows)"
        )


def _beyond(conditions: MachineConditions) -> bool:
    return any(True for _ in condition_faults(conditions))


def _mean(shares: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(share, seconds) for share, seconds in shares if share is not None]
    whole = sum(seconds for _, seconds in known)
    return sum(share * seconds for share, seconds in known) / whole if whole else None


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
    families, own_s = dict.fromkeys(roots), 0.0
    children: dict[int, list[int]] = {}
    for process, (parent, _) in times.items():
        children.setdefault(parent, []).append(process)
    waiting = list(families)
    while waiting:
        process = waiting.pop()
        own_s += times[process][1]
        new = [child for child in children.get(process, ()) if child not in families]
        families.update(dict.fromkeys(new))
        waiting += new
    return own_s


def _times(proc: Path) -> dict[int, tuple[int, float]]:
    """Reads of every process: its parent, and the CPU seconds of itself and of the children that it waited for."""
    tick, times = os.sysconf("SC_CLK_TCK"), {}
    for folder in proc.glob("[0-9]*"):  # none where this is no Linux
        if folder.name.isdigit():
            try:
                # After the command in parentheses: the parent is the 4th field of proc(5), the four times the 14th on.
                fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            times[int(folder.name)] = (int(fields[1]), sum(map(int, fields[11:15])) / tick)
    return times


def _throttled(processes: Collection[int], counters: MachineCounters) -> dict[str, tuple[int, int]]:
    """Reads the counters of the CPU limit of the processes' cgroups and of the groups above them."""
    limits: dict[str, tuple[int, int]] = {}
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
                own = Path(path.lstrip("/"))
                for group in (own, *own.parents):
                    file = counters.cgroups / mount / group / "cpu.stat"
                    if limit := _limit_counters(file):
                        limits[str(file)] = limit
    return limits


def _limit_counters(stat: Path) -> tuple[int, int] | None:
    try:
        values = dict(line.split() for line in stat.read_text(encoding="utf-8").splitlines())
    except OSError:
        return None
    # The root of version 2 has no limit, and so no such counters.
    return (int(values["nr_periods"]), int(values["nr_throttled"])) if "nr_throttled" in values else None
