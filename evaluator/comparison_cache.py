"""Keeps the comparisons that pages show: thousands of queries take seconds, and a page must not wait for them."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings, compare
from evaluator.errors import EvaluationError
from evaluator.thread_work import in_thread

WAIT_S = 0.6  # of a request for a comparison that is being computed
KEPT = 16
MOST_WAITING = 4

_Key = tuple[tuple[str, ...], str, tuple[int, ...]]


class TooManyComparisons(EvaluationError):
    """As many comparisons as may wait are being computed."""


class ComparisonDelayed(EvaluationError):
    """An experiment is being measured in this process, whose CPU time no rule of valid times sees."""


class ComparisonCache:
    """Computes comparisons one after the other in a thread and keeps the last ones. Owned by one event loop."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._tasks: dict[_Key, asyncio.Task[ComparisonReport]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def report(
        self, words: Sequence[str], settings: ComparisonSettings, measured: str | None
    ) -> ComparisonReport | None:
        """Returns a comparison, None while it is being computed. `words`: ids of runs, alone or with `:PIPELINE`.

        `measured`: the run that this process measures, during which none is begun. Raises EvaluationError where the
        runs cannot be compared, ComparisonDelayed and TooManyComparisons.
        """
        key = (tuple(words), settings.model_dump_json(), tuple(map(self._changed_at, words)))
        task = self._tasks.get(key)
        if task is None:
            if measured is not None:
                raise ComparisonDelayed(
                    f"{measured} is being measured, and a comparison would disturb its times; compare when it has ended"
                )
            if sum(not one.done() for one in self._tasks.values()) >= MOST_WAITING:
                raise TooManyComparisons("other comparisons are being computed; try again in a moment")
            task = self._tasks[key] = asyncio.create_task(self._compared(words, settings))
            done = [known for known, one in self._tasks.items() if one.done()]
            for known in done[: max(0, len(self._tasks) - KEPT)]:
                del self._tasks[known]
        await asyncio.wait({task}, timeout=WAIT_S)
        if not task.done():
            return None
        if task.exception() is not None:
            self._tasks.pop(key, None)  # what was missing may be there next time
        return task.result()

    async def close(self) -> None:
        """Drops the comparisons that wait."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _compared(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport:
        async with self._one_at_a_time:
            # By path: a bare name could be a folder here.
            return await in_thread(compare, [str(self._runs / word) for word in words], self._runs, settings)

    def _changed_at(self, word: str) -> int:
        """Returns when the ranking of a run was written: a run that was ranked again is compared again."""
        try:
            return (self._runs / word.partition(":")[0] / "rank.json").stat().st_mtime_ns
        except OSError:
            return 0
