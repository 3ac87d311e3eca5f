"""Owns what pages of judging must not wait for: making and opening sessions, their states, verdicts, figures after."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.comparison.verdict import PairedComparison
from evaluator.evaluation import measure_again
from evaluator.judging.agreement import group_agreement, judge_agreements
from evaluator.judging.consensus import consensus_grades, disputed_pairs
from evaluator.judging.outlook import VerdictOutlook
from evaluator.judging.progress_page import MOST_DISPUTED
from evaluator.judging.session import Order
from evaluator.report.report_step import choices_of, report_step
from evaluator.runs.run_folder import RunFolder
from evaluator.service.background_work import BackgroundWork
from evaluator.service.computing_lock import ComputingLock
from evaluator.service.judging_pages import SessionState
from evaluator.service.requested_sessions import RequestedSessions
from evaluator.service.served_sessions import ServedSessions

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

    requested: RequestedSessions
    states: BackgroundWork[GradesKey, SessionState]
    verdicts: BackgroundWork[GradesKey, SessionVerdicts]
    opening: BackgroundWork[tuple[str, Order], bool]
    measuring: BackgroundWork[MeasureKey, bool]

    def measures(self, run: str) -> bool:
        """Returns whether a run is being measured, or waits for it."""
        return any(key[0] == run for key in self.measuring.at_work())

    async def close(self) -> None:
        """Drops what waits."""
        for work in (self.requested, self.states, self.verdicts, self.opening, self.measuring):
            await work.close()


def slow_work(sessions: ServedSessions, lock: ComputingLock) -> SlowWork:
    """Returns the work of a process that has just begun. `lock`: of what takes seconds of CPU time."""
    requested = RequestedSessions(sessions, lock)
    verdicts = BackgroundWork[GradesKey, SessionVerdicts](lock, "a verdict of judging")
    measuring = BackgroundWork[MeasureKey, bool](lock, "the quality of a run")
    return SlowWork(requested, BackgroundWork(), verdicts, BackgroundWork(), measuring)


def session_state(sessions: ServedSessions, name: str) -> SessionState:
    """Returns what the page of a session shows. Raises as `ServedSessions.using`."""
    with sessions.using(name) as session:
        judges = session.grades()
        disputed = disputed_pairs(judges)
        return SessionState(
            name=name,
            file=session.file,
            progress=session.progress(),
            judged=len(consensus_grades(judges)),
            agreements=judge_agreements(judges),
            group=group_agreement(judges),
            disputed=disputed,
            texts=[session.shown(one.pair) for one in disputed[:MOST_DISPUTED]],
            runs=tuple(dict.fromkeys(source.run for source in session.file.sources)),
        )


def session_verdicts(sessions: ServedSessions, name: str) -> SessionVerdicts:
    """Computes the verdicts of a session and their outlooks. Raises as `ServedSessions.using`."""
    with sessions.using(name) as session:
        return SessionVerdicts(session.outlooks(), session.verdicts())


def measured_by(folder: RunFolder, sessions: ServedSessions, session: str) -> bool:
    """Measures a run by the judgments of a session, or by the dataset's alone where none is named. Returns True.

    Its report keeps the baseline and the bounds that were asked of it.
    """
    asked = choices_of(folder)
    measure_again(folder, None, [sessions.export(session)] if session else [])
    report_step(folder, asked)
    return True
