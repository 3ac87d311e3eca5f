"""Reads counters of the machine around a measurement and in short windows of it, and computes what others took.

A window is disturbed by these counters alone, never by the times measured in it. Sources: proc(5), the kernel's
documents of cgroups v1 and v2. What the machine does not report is None.
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

# A window ends at the first occasion after so long. Clocks tick in 10 ms, and a reading takes milliseconds.
WINDOW_S = 0.5
# Of one core, by a hypervisor and by processes that are not measured, together: beyond it a window is disturbed.
TAKEN_LIMIT = 0.09
KERNEL_THREADS, KERNEL_NAME = 2, "kthreadd"  # their parent; they work for whoever called the kernel

T = TypeVar("T")
Span = tuple[float, float]  # seconds on the clock of the counters


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
    foreign_s: float | None  # of all processes but this one, those named as measured, and all their children
    steal_s: float | None
    throttled: dict[str, tuple[int, int]]  # by cgroup of these processes: periods, and those that hit the limit


class MachineConditions(Wire):
    """What happened on the machine between two readings, as shares of 0 to 1; null: the machine does not tell."""

    seconds: FiniteFloat
    cores: Count
    foreign: FiniteFloat | None  # of all cores, used by processes that were not measured
    steal: FiniteFloat | None  # of all cores, taken by a hypervisor
    throttled: FiniteFloat | None  # of the periods of the CPU limit: those in which the processes had used it up
    windows: Count = 0  # spans of half a second or more into which the time was cut; 0: only the whole
    busy_windows: Count = 0  # of them, those that were disturbed
    clean_taken: FiniteFloat | None = None  # of one core, by others in the windows that were not disturbed; null: none

    @property
    def taken(self) -> float:
        """What others took of one core, as far as the machine reports it."""
        return self.cores * ((self.foreign or 0.0) + (self.steal or 0.0))


def read_conditions(
    measured: Collection[int] | None = (),
    counters: MachineCounters = MachineCounters(),  # frozen
) -> ConditionsReading:
    """Reads the counters now; takes a few milliseconds.

    `measured`: ids of the processes of the system under test on this machine. Their children and this process are not
    foreign, without being named. None: they run here, unknown which; then no CPU time counts as foreign.
    """
    own = None if measured is None else {os.getpid(), *measured}
    steal_s, cores = _steal(counters.proc / "stat")
    return ConditionsReading(
        at_s=counters.clock(),
        cores=cores,
        foreign_s=None if own is None else _foreign_s(own, counters.proc),
        steal_s=steal_s,
        throttled=_throttled(own or {os.getpid()}, counters),
    )


def conditions_between(before: ConditionsReading, after: ConditionsReading) -> MachineConditions:
    """Returns the shares between two readings of the same processes."""
    seconds = after.at_s - before.at_s
    return MachineConditions(
        seconds=seconds,
        cores=after.cores,
        foreign=_share(before.foreign_s, after.foreign_s, after.cores * seconds),
        steal=_share(before.steal_s, after.steal_s, after.cores * seconds),
        throttled=_throttled_share(before.throttled, after.throttled),
    )


def unchecked_foreign(conditions: Iterable[MachineConditions]) -> Iterator[str]:
    """Yields a remark where the CPU time of the machine could not be assigned to processes."""
    if any(part.foreign is None and part.steal is not None for part in conditions):
        yield (
            "foreign CPU unknown: this runs folder does not know the gateway's processes (`make up` records them), "
            "so other work was not checked"
        )


def condition_words(conditions: MachineConditions) -> str:
    """Returns what others took, and in how many windows."""
    shares = {"other processes used": conditions.foreign, "the hypervisor took": conditions.steal}
    known = [f"{who} {share:.1%} of the CPU" for who, share in shares.items() if share]
    if conditions.throttled:
        known.append(f"the CPU limit of a cgroup stopped the processes in {conditions.throttled:.1%} of its periods")
    words = ", ".join(known) or "by less than is shown here"
    return f"{conditions.busy_windows} of {conditions.windows} windows were disturbed: {words}"


class ConditionsMeter:
    """Holds the readings of one measurement: the first, the last one that ended a window, and what was disturbed."""

    def __init__(self, measured: Collection[int] | None, counters: MachineCounters | None = None) -> None:
        """`measured`: as in `read_conditions`. `counters`: of tests."""
        self._measured = measured
        self._counters = counters or MachineCounters()
        self._first = self._last = read_conditions(measured, self._counters)
        self._windows = 0
        self._clean: list[tuple[float, float]] = []  # what was taken, and seconds
        self.disturbed: list[Span] = []

    @property
    def due(self) -> bool:
        """Whether a window is over. What is timed in this process reads between two timings: it takes a while."""
        return self._counters.clock() - self._last.at_s >= WINDOW_S

    def end_window(self) -> bool:
        """Reads now and returns whether the window that ends was disturbed; of a short one less than of a whole one."""
        now = read_conditions(self._measured, self._counters)
        window = conditions_between(self._last, now)
        taken = window.taken * min(1.0, window.seconds / WINDOW_S)
        if disturbed := taken > TAKEN_LIMIT or bool(window.throttled):
            self.disturbed.append((self._last.at_s, now.at_s))
        else:
            self._clean.append((window.taken, window.seconds))
        self._windows += 1
        self._last = now
        return disturbed

    def conditions(self) -> MachineConditions:
        """Returns the conditions from the beginning to the end of the last window."""
        whole = conditions_between(self._first, self._last)
        windows = {"windows": self._windows, "busy_windows": len(self.disturbed), "clean_taken": _mean(self._clean)}
        return whole.model_copy(update=windows)


async def metered(
    work: Awaitable[T], measured: Collection[int] | None, counters: MachineCounters | None = None
) -> tuple[T, ConditionsMeter]:
    """Awaits work and returns its result with the conditions meanwhile, read every `WINDOW_S` in this process."""
    meter = ConditionsMeter(measured, counters)
    task = asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait([task], timeout=WINDOW_S))[0]:
            meter.end_window()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
    result = task.result()
    meter.end_window()
    return result, meter


async def quiet_within(seconds: float, measured: Collection[int] | None) -> bool:
    """Waits for a window that is not disturbed, for so long at most. Returns whether there was one."""
    meter, end_s = ConditionsMeter(measured), time.monotonic() + seconds
    while time.monotonic() + WINDOW_S <= end_s:
        await asyncio.sleep(WINDOW_S)
        if not meter.end_window():
            return True
    return False


def joined_conditions(parts: Iterable[MachineConditions]) -> MachineConditions:
    """Returns the conditions of at least one part as of one measurement: means over the time, and all windows."""
    given = tuple(parts)
    return MachineConditions(
        seconds=sum(part.seconds for part in given),
        cores=given[0].cores,
        foreign=_mean((part.foreign, part.seconds) for part in given),
        steal=_mean((part.steal, part.seconds) for part in given),
        throttled=_mean((part.throttled, part.seconds) for part in given),
        windows=sum(part.windows for part in given),
        busy_windows=sum(part.busy_windows for part in given),
        clean_taken=_mean((part.clean_taken, part.seconds) for part in given),
    )


def _mean(shares: Iterable[tuple[float | None, float]]) -> float | None:
    known = [(share, seconds) for share, seconds in shares if share is not None]
    whole = sum(seconds for _, seconds in known)
    return sum(share * seconds for share, seconds in known) / whole if whole else None


def _share(before: float | None, after: float | None, whole: float) -> float | None:
    return None if before is None or after is None or whole <= 0 else min(1.0, max(0.0, (after - before) / whole))


def _throttled_share(before: dict[str, tuple[int, int]], after: dict[str, tuple[int, int]]) -> float | None:
    """Returns the share of the cgroup that was stopped most; a limit of a parent stops its children."""
    shares = []
    for group in before.keys() & after.keys():
        periods, stopped = (after[group][at] - before[group][at] for at in (0, 1))
        shares.append(stopped / periods if periods > 0 else 0.0)
    return max(shares, default=None)


def _steal(stat: Path) -> tuple[float | None, int]:
    """Reads the CPU seconds since boot that a hypervisor took, and the number of cores."""
    try:
        lines = stat.read_text(encoding="utf-8").splitlines()
        steal_s = int(lines[0].split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):  # not Linux
        return None, os.cpu_count() or 1
    return steal_s, sum(line.startswith("cpu") and line[3:4].isdigit() for line in lines)


def _foreign_s(own: Collection[int], proc: Path) -> float | None:
    """Sums the CPU seconds of all processes but the own ones and their descendants.

    None where an own one has ended, and in a container, which lists its own processes alone.

    Not what is busy less what is own: the kernel samples the former at its ticks, which in half a second is off by more
    than the limit. The time of a child that ended stands with its parent, which has waited for it.
    """
    times = _times(proc)
    kernel = proc / str(KERNEL_THREADS) / "comm"
    if not times.keys() >= set(own) or not kernel.exists() or kernel.read_text().strip() != KERNEL_NAME:
        return None
    families = {KERNEL_THREADS, *own}
    while new := {process for process, (parent, _) in times.items() if parent in families} - families:
        families |= new
    return sum(spent_s for process, (_, spent_s) in times.items() if process not in families)


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
