"""Reads named processes while a load runs: around each slice, and their memory every few seconds for load/memory.jsonl.

Runs in the evaluator, never in a generator. Leaves what the readings mean to points and statistics.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.statistics.memory_trend import MemoryReading
from evaluator.machine.process_costs import (
    ProcessReading,
    Reader,
    Readings,
    costs_between,
    process_reader,
    started_anew,
)
from evaluator.runs.run_folder import writable
from services.files.disk_writes import naming

MEMORY = Path("load", "memory.jsonl")
# A reading of four services took the evaluator 21 ms of CPU, each of them 4 ms (shared x86-64 machine of two cores).
MEMORY_EVERY_S = 10.0


class ProcessWatch:
    """Owns load/memory.jsonl, and the task that fills it until `ended` is called. Without a process, no file."""

    def __init__(self, read: Reader, file: Path, every_s: float) -> None:
        self._read = read
        self._file = file
        self._every_s = every_s
        self._memory: list[MemoryReading] = []
        self._last: dict[str, ProcessReading] = {}
        self._task = asyncio.create_task(self._follow())

    async def with_costs(self, drive: Awaitable[LoadedPoint]) -> LoadedPoint:
        """Awaits a drive and adds what it cost each process, from its start to its last answer."""
        before = await self._read()
        loaded = await drive
        return replace(loaded, costs=costs_between(before, await self._read()))

    async def ended(self) -> tuple[MemoryReading, ...]:
        """Stops reading memory and returns all readings. Raises what the task has met."""
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()
        return tuple(self._memory)

    async def _follow(self) -> None:
        began = time.monotonic()
        while readings := await self._read():
            self._add(time.monotonic() - began, readings)
            await asyncio.sleep(self._every_s)

    def _add(self, seconds: float, readings: Readings) -> None:
        anew = [name for name, one in readings.items() if name in self._last and started_anew(self._last[name], one)]
        # One that cannot be read while it starts is compared with the last that could be.
        self._last |= {name: one for name, one in readings.items() if one.memory_bytes is not None}
        memory = {name: one.memory_bytes for name, one in readings.items()}
        self._memory.append(MemoryReading(seconds=seconds, memory_bytes=memory, started_anew=tuple(anew)))
        with naming(self._file), writable(self._file).open("a", encoding="utf-8") as file:
            file.write(self._memory[-1].model_dump_json() + "\n")


@asynccontextmanager
async def watching(
    processes: Mapping[str, str], folder: Path, every_s: float = MEMORY_EVERY_S
) -> AsyncIterator[ProcessWatch]:
    """Watches processes (URLs by name; maybe none) for a load. `folder`: of the run.

    Removes the readings of an earlier load.
    """
    (folder / MEMORY).unlink(missing_ok=True)
    async with process_reader(processes) as read:
        watch = ProcessWatch(read, folder / MEMORY, every_s)
        try:
            yield watch
        finally:
            await watch.ended()
