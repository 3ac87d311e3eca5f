"""Writes the files of /proc and /sys that `evaluator.machine.machine_conditions` reads, for tests."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.machine.machine_conditions import MachineCounters

CORES = 2
SERVICE, SERVICE_CHILD = 4711, 4712


@dataclass(slots=True)
class CountedMachine:
    """A machine of two cores that runs this process, a service with a child, and others. Shares are of both cores."""

    root: Path
    now_s: float = 1000.0
    ticks: dict[str, float] = field(
        default_factory=lambda: {"own": 500.0, "service": 900.0, "other": 70.0, "steal": 3.0}
    )
    periods: int = 100
    stopped: int = 2

    def __post_init__(self) -> None:
        self.pass_time()

    @property
    def counters(self) -> MachineCounters:
        """Where the files lie, and the clock."""
        return MachineCounters(proc=self.root / "proc", cgroups=self.root / "cgroup", clock=lambda: self.now_s)

    def pass_time(
        self,
        seconds: float = 0.0,
        *,
        own: float = 0.0,
        service: float = 0.0,
        other: float = 0.0,
        steal: float = 0.0,
        throttled: float = 0.0,
    ) -> None:
        """Lets time pass in which each took a share of the cores, and writes the files."""
        self.now_s += seconds
        for name, share in (("own", own), ("service", service), ("other", other), ("steal", steal)):
            self.ticks[name] += share * CORES * seconds * os.sysconf("SC_CLK_TCK")
        self.periods += round(10 * seconds)
        self.stopped += round(10 * seconds * throttled)
        self._write()

    def forget_everything(self) -> None:
        """Leaves nothing of what a machine need not tell."""
        for file in ("proc/stat", "cgroup/cpu/cpu.stat"):
            (self.root / file).unlink()

    def _write(self) -> None:
        busy = round(self.ticks["own"]) + round(self.ticks["service"]) + round(self.ticks["other"])
        line = f"{busy} 0 0 99999 77 0 0 {round(self.ticks['steal'])} 0 0"
        self._file("proc/stat", f"cpu  {line}\ncpu0 {line}\ncpu1 {line}\nintr 1\n")
        # Of the service's time, one half is its child's; the names have what breaks a split by spaces.
        half = round(self.ticks["service"]) // 2
        self._process(os.getpid(), 1, round(self.ticks["own"]), "python")
        self._process(SERVICE, 1, half, "tmux: (1) server")
        self._process(SERVICE_CHILD, SERVICE, round(self.ticks["service"]) - half, "java")
        self._process(5, 1, round(self.ticks["other"]), "kworker/0:1")
        self._file("proc/2/comm", "kthreadd\n")
        self._file("cgroup/cpu/cpu.stat", f"nr_periods {self.periods}\nnr_throttled {self.stopped}\nthrottled_time 9\n")

    def _process(self, number: int, parent: int, ticks: int, name: str) -> None:
        before_times = "0 " * 9
        self._file(f"proc/{number}/stat", f"{number} ({name}) S {parent} {before_times}{ticks} 0 0 0 20 0 1 0\n")
        self._file(f"proc/{number}/cgroup", "4:memory:/a\n1:cpu:/\n0::/\n")

    def _file(self, name: str, content: str) -> None:
        path = self.root / name
        try:
            path.write_text(content, encoding="utf-8")
        except FileNotFoundError:
            path.parent.mkdir(parents=True)
            path.write_text(content, encoding="utf-8")
