"""Owns what pages of judging must not wait for: opening sessions, their states, verdicts, figures after judging."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.background_work import BackgroundWork
from evaluator.comparison.verdict import PairedComparison
from evaluator.computing_lock import ComputingLock
from evaluator.judging.outlook import VerdictOutlook
from evaluator.judging.session import Order
from evaluator.pages.judging_pages import SessionState

GradesKey = tuple[str, tuple[tuple[str, int], ...]]  # a session, and how much each judge has written
MeasureKey = tuple[str, str, int]  # a run, a session or none, and how much its judges have written


@dataclass(frozen=True, slots=True)
class SessionVerdicts:
    """The verdicts of a session, and by pipeline what each can still become."""

    outlooks: Mapping[str, VerdictOutlook]
    verdicts: Sequence[PairedComparison]


@dataclass(frozen=True, slots=True)
class SlowWork:
    """What may take too long for a page."""

    states: BackgroundWork[GradesKey, SessionState]
    verdicts: BackgroundWork[GradesKey, SessionVerdicts]
    opening: BackgroundWork[tuple[str, Order], bool]
    measuring: BackgroundWork[MeasureKey, bool]

    async def close(self) -> None:
        """Drops what waits."""
        for work in (self.states, self.verdicts, self.opening, self.measuring):
            await work.close()


def slow_work(lock: ComputingLock) -> SlowWork:
    """Returns the work of a process that has just begun. `lock`: of what takes seconds of CPU time."""
    verdicts = BackgroundWork[GradesKey, SessionVerdicts](lock, "a verdict of judging")
    measuring = BackgroundWork[MeasureKey, bool](lock, "the quality of a run")
    return SlowWork(BackgroundWork(), verdicts, BackgroundWork(), measuring)
