"""Reads peak memory and CPU time of each process of a running stack from /proc."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from services.files.disk_writes import write_whole

PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Footprint:
    """One process with its descendants. `peak_mib` sums their peaks, which need not coincide."""

    process: str
    peak_mib: float
    cpu_s: float


def footprints(supervisor: int, names: Sequence[tuple[str, list[str]]]) -> list[Footprint]:
    """Measures every named process under the supervisor; empty without /proc (macOS)."""
    found = []
    for child in _children(supervisor):
        command = _command(child)
        name = next((name for name, words in names if command[1:] == words[1:]), None)
        if name is not None:
            family = [child, *_descendants(child)]
            found.append(Footprint(name, round(sum(map(_peak_mib, family)), 1), round(sum(map(_cpu_s, family)), 1)))
    return sorted(found, key=lambda one: one.process)


def table(found: Sequence[Footprint]) -> str:
    """Renders a table for the terminal."""
    rows = [f"| {one.process:<16} | {one.peak_mib:>8.0f} | {one.cpu_s:>6.1f} |" for one in found]
    return "\n".join(["| process          | peak MiB |  CPU s |", "| ---------------- | -------: | -----: |", *rows])


def write(found: Sequence[Footprint], file: Path) -> None:
    """Writes JSON for the report's folder."""
    write_whole(file, json.dumps([asdict(one) for one in found], indent=1) + "\n")


def _children(pid: int) -> list[int]:
    # Reads every thread: Java starts the server's JVM from another thread than its first.
    found = []
    for task in (PROC / str(pid) / "task").glob("*/children"):
        try:
            found += [int(child) for child in task.read_text().split()]
        except OSError:
            continue  # the thread has ended
    return found


def _descendants(pid: int) -> Iterator[int]:
    for child in _children(pid):
        yield child
        yield from _descendants(child)


def _command(pid: int) -> list[str]:
    try:
        return (PROC / f"{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    except OSError:
        return []


def _peak_mib(pid: int) -> float:
    try:
        lines = (PROC / f"{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def _cpu_s(pid: int) -> float:
    try:
        # After the command in parentheses: utime and stime are the 14th and 15th fields of proc(5).
        fields = (PROC / f"{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
