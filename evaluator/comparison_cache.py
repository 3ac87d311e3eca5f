"""Computes and keeps the comparisons of the service, for its route and its page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from evaluator.background_work import BackgroundWork
from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings, compare
from evaluator.computing_lock import ComputingLock

_Key = tuple[tuple[str, ...], str, tuple[int, ...]]


class ComparisonCache:
    """Computes comparisons one after the other, never beside a measurement, and keeps the last ones."""

    def __init__(self, runs: Path, lock: ComputingLock) -> None:
        self._runs = runs
        self._work = BackgroundWork[_Key, ComparisonReport](lock, "a comparison")

    async def report(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport:
        """Returns a comparison. `words`: ids of runs, alone or with `:PIPELINE`.

        Raises EvaluationError where the runs cannot be compared, and of one that is not kept what `BackgroundWork`
        does.
        """
        return await self._work.whole(self._begun(words, settings))

    async def report_soon(self, words: Sequence[str], settings: ComparisonSettings) -> ComparisonReport | None:
        """Returns a comparison as `report` does, None while it is being computed."""
        return await self._work.result(self._begun(words, settings))

    async def close(self) -> None:
        """Drops the comparisons that wait."""
        await self._work.close()

    def _begun(self, words: Sequence[str], settings: ComparisonSettings) -> _Key:
        """Returns the key of a comparison that is kept or at work, after starting it if need be."""
        key = (tuple(words), settings.model_dump_json(), tuple(map(self._changed_at, words)))
        if not self._work.holds(key):
            # By path: a bare name could be a folder here.
            self._work.start(key, partial(compare, [str(self._runs / word) for word in words], self._runs, settings))
        return key

    def _changed_at(self, word: str) -> int:
        """Returns when the ranking of a run was written: a run that was ranked again is compared again."""
        try:
            return (self._runs / word.partition(":")[0] / "rank.json").stat().st_mtime_ns
        except OSError:
            return 0
