"""Computes what a page must not wait for: one task after the other in a thread, each under a key.

Never beside a measurement: both hold the measurement lock of the folder of runs.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from evaluator.progress import in_thread
from evaluator.runs.measurement_lock import MeasurementLock, MeasurementRunning
from services.chassis.errors import Unavailable

# How long a request waits for a result that is being computed. The thread that computes may delay the answer by as
# much again.
WAIT_S = 0.3
KEPT = 16
MOST_WAITING = 4
AGAIN_S = 5  # until one of those that wait has ended
MEASURED_S = 30  # a measurement takes minutes

Key = TypeVar("Key")
Result = TypeVar("Result")


class MeasurementUnderWay(Unavailable):
    """A measurement runs in this folder; the message names it."""

    kind, title = "measurement-running", "A measurement is running"


class ComputingLock:
    """Holds the measurement lock of a folder while one or more works of this process hold it. For one event loop.

    No rule of valid times would see the CPU time of a comparison beside a measurement.
    """

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._works: list[str] = []
        self._lock: MeasurementLock | None = None

    def take(self, what: str) -> None:
        """Begins a work; `what`: its name in the message to a measurement. `release` ends it.

        Raises MeasurementUnderWay, and Unavailable in a folder that cannot be written.
        """
        lock = self._lock = self._lock or self._taken()
        self._works.append(what)
        lock.name(self._works[0])

    def release(self, what: str) -> None:
        """Ends a work; the last one gives the lock back."""
        self._works.remove(what)
        if self._lock is None:
            return
        if self._works:
            self._lock.name(self._works[0])
        else:
            self._lock.release()
            self._lock = None

    def _taken(self) -> MeasurementLock:
        try:
            lock = MeasurementLock(self._runs)
            lock.take()
        except MeasurementRunning as error:
            raise MeasurementUnderWay(f"{error}.", retry_after_s=MEASURED_S) from error
        except OSError as error:
            raise Unavailable(f"The folder of runs cannot be written: {error.strerror}; see EVALUATOR_RUNS.") from error
        return lock


class BackgroundWork(Generic[Key, Result]):
    """Runs the tasks and keeps the last results. For one event loop."""

    def __init__(self, lock: ComputingLock | None = None, what: str = "") -> None:
        """`lock`: held while any of this work goes on, under the name `what`; None: it may disturb a measurement."""
        self._lock, self._what = lock, what
        self._tasks: dict[Key, asyncio.Task[Result]] = {}
        self._one_at_a_time = asyncio.Lock()

    def holds(self, key: Key) -> bool:
        """Returns whether work was started under this key, be it at work or done."""
        return key in self._tasks

    def at_work(self) -> list[Key]:
        """Returns the keys of the work that has not ended."""
        return [key for key, task in self._tasks.items() if not task.done()]

    def start(self, key: Key, compute: Callable[[], Result]) -> None:
        """Starts work, anew where that of this key has ended; where it has not, it goes on alone.

        Raises Unavailable while as much work waits as may, and as `ComputingLock.take`.
        """
        if key in self._tasks and not self._tasks[key].done():
            return
        if len(self.at_work()) >= MOST_WAITING:
            raise Unavailable("Other results are being computed; try again in a moment.", retry_after_s=AGAIN_S)
        if self._lock is not None:
            self._lock.take(self._what)
        self._tasks.pop(key, None)  # the newest is the last
        task = self._tasks[key] = asyncio.create_task(self._computed(compute))
        task.add_done_callback(self._release)
        done = [known for known, task in self._tasks.items() if task.done()]
        for known in done[: max(0, len(self._tasks) - KEPT)]:
            del self._tasks[known]

    async def result(self, key: Key) -> Result | None:
        """Returns what was computed, None while it is not there. Raises what the work raised, once."""
        task = self._tasks[key]
        await asyncio.wait({task}, timeout=WAIT_S)
        return self._outcome(key, task) if task.done() else None

    async def whole(self, key: Key) -> Result:
        """Waits until the work has ended. Returns and raises as `result`."""
        task = self._tasks[key]
        await asyncio.wait({task})
        return self._outcome(key, task)

    async def close(self) -> None:
        """Drops the work that waits, and waits for the one that is being computed."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _outcome(self, key: Key, task: asyncio.Task[Result]) -> Result:
        if task.exception() is not None and self._tasks.get(key) is task:
            del self._tasks[key]
        return task.result()

    def _release(self, _: object) -> None:
        if self._lock is not None:
            self._lock.release(self._what)

    async def _computed(self, compute: Callable[[], Result]) -> Result:
        async with self._one_at_a_time:
            return await in_thread(compute)
