"""Owns the judging sessions of the service: which there are, those that are open, and new ones.

A session is opened once and kept: reading a pool of 95,000 pairs takes most of a second.
"""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from pydantic import ValidationError

from evaluator.errors import EvaluationError
from evaluator.judging.export import export_by_content
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


@dataclass(slots=True)
class _OpenSession:
    session: JudgingSession
    made_at: int  # of session.json, in ns: another session may take the name of a removed one
    lock: Lock = field(default_factory=Lock)


class ServedSessions:
    """The sessions in `judging` of the folder of runs. Safe for several threads: each session is used by one."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs
        self._open: OrderedDict[str, _OpenSession] = OrderedDict()
        self._lock = Lock()

    def names(self) -> list[str]:
        """Returns the names of all sessions, the newest first, without those that no address can have (not UTF-8)."""
        # A file may be gone again, or be a link that leads nowhere, or out of the folder of runs.
        runs, files = self._runs.resolve(), (self._runs / FOLDER).glob(f"*/{SESSION}")
        found = [path for path in files if path.exists() and path.resolve().is_relative_to(runs)]
        named = [path for path in found if not SURROGATES.search(path.parent.name)]
        return [path.parent.name for path in sorted(named, key=_made_at, reverse=True)]

    def listed(self, names: Sequence[str]) -> list[ListedSession]:
        """Returns sessions for the list."""
        return [self._listed(name) for name in names]

    def create(self, words: Sequence[str], top: int, seed: int) -> str:
        """Makes a session from pipelines (`RUN:PIPELINE`) and returns its name. Raises as `create_session`."""
        # By path: a bare name could be a folder here.
        made = create_session([str(self._runs / word) for word in words], self._runs, top=top, seed=seed)
        return made.folder.name

    @contextmanager
    def using(self, name: str) -> Iterator[JudgingSession]:
        """Yields an open session to this thread alone. Raises NotFound, and EvaluationError for a damaged one."""
        with self._lock:
            held = self._opened(name)
        with held.lock:
            yield held.session

    def export(self, name: str) -> Path:
        """Writes the grades so far as qrels, named by their content. Raises EvaluationError where there is none."""
        with self.using(name) as session:
            return export_by_content(session)

    def _opened(self, name: str) -> _OpenSession:
        if name not in self.names():  # none is read by a name that a caller chose
            raise NotFound(f"No judging session {name} here; the page of judging has all.")
        folder = self._runs / FOLDER / name
        made_at = (folder / SESSION).stat().st_mtime_ns
        held = self._open.get(name)
        if held is None or held.made_at != made_at:
            held = self._open[name] = _OpenSession(JudgingSession(folder), made_at)
        self._open.move_to_end(name)
        while len(self._open) > KEPT_OPEN:
            self._open.popitem(last=False)
        return held

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
