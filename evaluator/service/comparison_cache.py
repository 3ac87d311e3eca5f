"""Computes and keeps the comparisons of the service, for its route and its page.

They are by the judgments that the runs are measured by, so that a run's page and its comparison show the same.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from evaluator.comparison.comparing import ComparisonReport, ComparisonSettings, compare
from evaluator.service.background_work import BackgroundWork
from evaluator.service.computing_lock import ComputingLock

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
        changed = tuple(self._changed_at(word, name) for word in words for name in ("rank.json", "quality.json"))
        key = (tuple(words), settings.model_dump_json(), changed)
        if not self._work.holds(key):
            # By path: a bare name could be a folder here.
            paths = [str(self._runs / word) for word in words]
            self._work.start(key, partial(compare, paths, self._runs, settings, added=None))
        return key

    def _changed_at(self, word: str, name: str) -> int:
        """Returns when a file of a run was written: a run that was ranked or measured again is compared again."""
        try:
            return (self._runs / word.partition(":")[0] / name).stat().st_mtime_ns
        except OSError:
            return 0
