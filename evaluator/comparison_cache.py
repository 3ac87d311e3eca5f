"""Computes and keeps the comparisons of the service, one at a time and never beside a measurement."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings, compare
from evaluator.measurement_lock import MeasurementLock, MeasurementRunning
from evaluator.thread_work import in_thread
from services.chassis.errors import Overloaded, Unavailable

WAIT_S = 0.6  # of a page for a comparison that is being computed: thousands of queries take seconds
KEPT = 16
MOST_WAITING = 4
AFTER_A_MEASUREMENT_S, AFTER_A_COMPARISON_S = 30, 5

_Key = tuple[tuple[str, ...], str, tuple[int, ...]]


class ComparisonDelayed(Unavailable):
    """A measurement runs in this folder: no rule of valid times would see the CPU time of a comparison beside it."""

    kind, title = "measurement-running", "A measurement is running"


class ComparisonCache:
    """Computes comparisons one after the other in a thread and keeps the last ones. Owned by one event loop.

    While one is computed or waits, it holds the measurement lock of the folder: no measurement can begin.
    """

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._tasks: dict[_Key, asyncio.Task[ComparisonReport]] = {}
        self._one_at_a_time = asyncio.Lock()
        self._lock: MeasurementLock | None = None

    async def report(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport:
        """Returns a comparison. `words`: ids of runs, alone or with `:PIPELINE`.

        Raises EvaluationError where the runs cannot be compared. Where it is not kept, raises ComparisonDelayed while a
        measurement runs, Overloaded while MOST_WAITING others are computed, Unavailable in a folder without writing.
        """
        key, task = self._task(words, settings)
        await asyncio.wait({task})
        return self._outcome(key, task)

    async def report_soon(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport | None:
        """Returns a comparison as `report` does; None after WAIT_S, while it is being computed."""
        key, task = self._task(words, settings)
        await asyncio.wait({task}, timeout=WAIT_S)
        return self._outcome(key, task) if task.done() else None

    async def close(self) -> None:
        """Drops the comparisons that wait, and waits for the one that is being computed."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _task(self, words: Sequence[str], settings: ComparisonSettings) -> tuple[_Key, asyncio.Task[ComparisonReport]]:
        """Returns the kept or running computation of a comparison, or begins one."""
        key = (tuple(words), settings.model_dump_json(), tuple(map(self._changed_at, words)))
        if (known := self._tasks.get(key)) is not None:
            return key, known
        if sum(not one.done() for one in self._tasks.values()) >= MOST_WAITING:
            raise Overloaded(
                "Other comparisons are being computed; try again in a moment.", retry_after_s=AFTER_A_COMPARISON_S
            )
        lock = self._lock = self._lock or self._taken_lock()
        task = self._tasks[key] = asyncio.create_task(self._compared(words, settings, lock))
        task.add_done_callback(self._release)
        done = [kept for kept, one in self._tasks.items() if one.done()]
        for kept in done[: max(0, len(self._tasks) - KEPT)]:
            del self._tasks[kept]
        return key, task

    def _outcome(self, key: _Key, task: asyncio.Task[ComparisonReport]) -> ComparisonReport:
        if task.exception() is not None:
            self._tasks.pop(key, None)  # told once: what was missing may be there next time
        return task.result()

    async def _compared(
        self, words: Sequence[str], settings: ComparisonSettings, lock: MeasurementLock
    ) -> ComparisonReport:
        async with self._one_at_a_time:
            lock.name(f"a comparison of {' and '.join(words)}")
            # By path: a bare name could be a folder here.
            return await in_thread(compare, [str(self._runs / word) for word in words], self._runs, settings)

    def _taken_lock(self) -> MeasurementLock:
        try:
            lock = MeasurementLock(self._runs)
            lock.take()
        except MeasurementRunning as error:
            raise ComparisonDelayed(f"{error}.", retry_after_s=AFTER_A_MEASUREMENT_S) from error
        except OSError as error:
            raise Unavailable(f"{self._runs} cannot be written: {error.strerror}; see EVALUATOR_RUNS.") from error
        return lock

    def _release(self, _: object) -> None:
        """Gives the lock back when the last comparison that waited has ended."""
        if self._lock is not None and all(one.done() for one in self._tasks.values()):
            self._lock.release()
            self._lock = None

    def _changed_at(self, word: str) -> int:
        """Returns when the ranking of a run was written: a run that was ranked again is compared again."""
        try:
            return (self._runs / word.partition(":")[0] / "rank.json").stat().st_mtime_ns
        except OSError:
            return 0
