"""Makes the judging sessions that forms ask for, beside the pages: one for each form, however often it is sent."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from evaluator.errors import EvaluationError
from evaluator.service.background_work import BackgroundWork
from evaluator.service.computing_lock import ComputingLock
from evaluator.service.form_session import AskedSession
from evaluator.service.served_sessions import ServedSessions


@dataclass(frozen=True, slots=True)
class SentForm:
    """The form of a new session as it was filled in. `form`: distinguishes one loaded form from another."""

    form: str
    runs: tuple[str, ...]
    ticked: tuple[str, ...] | None  # RUN:PIPELINE; None: all, of a form that nobody has filled in
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MadeSession:
    """A session that is there."""

    name: str


@dataclass(frozen=True, slots=True)
class FailedSession:
    """A session that could not be made, and the form to show again."""

    sent: SentForm
    error: EvaluationError | OSError


class RequestedSessions:
    """Makes sessions one after the other, never beside a measurement, and keeps what became of the last ones."""

    def __init__(self, sessions: ServedSessions, lock: ComputingLock) -> None:
        self._sessions = sessions
        self._work = BackgroundWork[str, MadeSession | FailedSession](lock, "a new session of judging")

    async def ask(self, sent: SentForm, asked: AskedSession) -> str:
        """Returns the key of a session, after starting to make it if need be.

        A form that is sent again gets the session that it got before, unless that one failed. Raises as
        `BackgroundWork.start`.
        """
        key = _digest([sent.form, *asked.pipelines, str(asked.top), str(asked.seed)])
        if not self._work.holds(key) or isinstance(await self._work.result(key), FailedSession):
            self._work.start(key, partial(self._made, sent, asked))
        return key

    def holds(self, key: str) -> bool:
        """Returns whether a session is being made under this key, or was."""
        return self._work.holds(key)

    async def outcome(self, key: str) -> MadeSession | FailedSession | None:
        """Returns what became of a session, None while it is being made."""
        return await self._work.result(key)

    async def close(self) -> None:
        """Drops the sessions that wait, and waits for the one that is being made."""
        await self._work.close()

    def _made(self, sent: SentForm, asked: AskedSession) -> MadeSession | FailedSession:
        # Kept and not raised: an error that is raised is shown once, and a page can be loaded again.
        try:
            return MadeSession(self._sessions.create(asked.pipelines, asked.top, asked.seed))
        except (EvaluationError, OSError) as error:
            return FailedSession(sent, error)


def _digest(words: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(words).encode(errors="surrogatepass")).hexdigest()[:16]
