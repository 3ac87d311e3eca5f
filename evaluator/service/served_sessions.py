"""Lists, opens and creates the judging sessions of the service.

A session is opened once and kept: reading a pool of 95,000 pairs takes most of a second.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from evaluator.errors import EvaluationError
from evaluator.judging.judgment_log import judge_files
from evaluator.judging.new_session import FOLDER, create_session
from evaluator.judging.session import JudgingSession
from evaluator.judging.session_files import JUDGES, SESSION, SessionFile
from services.chassis.errors import NotFound
from services.contracts.base import SURROGATES
from services.files.regular_file import read_regular

KEPT_OPEN = 4


@dataclass(frozen=True, slots=True)
class ListedSession:
    """A session in the list. `file`: None where it is of another release. `fault`: why it cannot go on."""

    name: str
    file: SessionFile | None
    judges: tuple[str, ...] = ()
    fault: str = ""


class ServedSessions:
    """The sessions in `judging` of the folder of runs. Safe for several threads: one at a time uses a session."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._lock = Lock()
        # Another session may take the name of a removed one.
        self._opened = lru_cache(KEPT_OPEN)(lambda folder, made_at_ns: JudgingSession(folder))

    def names(self) -> list[str]:
        """Returns the names of all sessions, the newest first, without those that no address can have (not UTF-8)."""
        # A file may be gone again, or be a link that leads nowhere, or out of the folder of runs.
        runs, files = self._runs.resolve(), (self._runs / FOLDER).glob(f"*/{SESSION}")
        held = [path for path in files if path.exists() and path.resolve().is_relative_to(runs)]
        named = [path for path in held if not SURROGATES.search(path.parent.name)]
        return [path.parent.name for path in sorted(named, key=_made_at, reverse=True)]

    def listed(self, names: Sequence[str]) -> list[ListedSession]:
        return [self._listed(name) for name in names]

    def create(self, words: Sequence[str], top: int, seed: int) -> str:
        """Makes a session from pipelines (`RUN:PIPELINE`) and returns its name. Raises as `create_session`."""
        # By path: a bare name could be a folder here.
        made = create_session([str(self._runs / word) for word in words], self._runs, top=top, seed=seed)
        return made.folder.name

    @contextmanager
    def using(self, name: str) -> Iterator[JudgingSession]:
        """Yields a session to this thread alone. Raises NotFound, and EvaluationError for a damaged one."""
        if name not in self.names():  # none is read by a name that a caller chose
            raise NotFound(f"No judging session {name} here; the page of judging has all.")
        folder = self._runs / FOLDER / name
        with self._lock:
            yield self._opened(folder, (folder / SESSION).stat().st_mtime_ns)

    def _listed(self, name: str) -> ListedSession:
        folder = self._runs / FOLDER / name
        try:
            file = SessionFile.from_record(read_regular(folder / SESSION))
        except (OSError, ValidationError):
            return ListedSession(name, None)
        try:
            return ListedSession(name, file, tuple(path.stem for path in judge_files(folder / JUDGES)))
        except EvaluationError as error:
            return ListedSession(name, file, fault=f"{error}.")


def _made_at(path: Path) -> tuple[int, str]:
    try:
        return path.stat().st_mtime_ns, path.parent.name
    except OSError:
        return 0, path.parent.name
