"""Reads and writes the files of judges: JSON lines of grades, skips and undos, on the disk before a call returns.

Lines are only appended. Leaves which pairs there are to `evaluator.judging.session`.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, model_validator

from evaluator.errors import EvaluationError, WrongOption
from evaluator.judging.pool import PooledPair
from services.contracts.base import Wire
from services.files.disk_writes import sync_folder
from services.files.regular_file import read_regular

Action = Literal["grade", "skip", "undo"]
MOST_GRADE = 3
SUFFIX = ".jsonl"
# A judge's name is that of a file: lower case, so that two spellings are not two judges.
JUDGE, MOST_CHARACTERS = "[a-z0-9][a-z0-9_-]*( [a-z0-9_-]+)*", 64
JUDGE_RULE = f"lower case letters, digits, single spaces, - and _, at most {MOST_CHARACTERS}"
JudgeName = Annotated[str, Field(pattern=f"^{JUDGE}$", max_length=MOST_CHARACTERS)]
WAY_OUT = "mend or remove the line, or move the file out of the folder: the session then goes on without it"
Grade = Annotated[int, Field(strict=True, ge=0, le=MOST_GRADE)]


class JudgmentLine(Wire):
    """What a judge did. `undo` takes back the judge's last action that still stands, and names its pair."""

    action: Action
    query: str
    document: str
    grade: Grade | None = None  # of the action `grade` alone
    judge: JudgeName
    utc: str

    @model_validator(mode="after")
    def _graded(self) -> Self:
        if (self.grade is not None) != (self.action == "grade"):
            raise ValueError("grade: belongs to the action `grade`, and to no other")
        return self

    @property
    def pair(self) -> PooledPair:
        """What was judged."""
        return PooledPair(self.query, self.document)


@dataclass(frozen=True, slots=True)
class StandingJudgments:
    """What stands of a judge after all undos. A later judgment of a pair replaces an earlier one."""

    grades: Mapping[PooledPair, int]
    skipped: Set[PooledPair]


def judge_name(text: str) -> str:
    """Returns the name of a judge, which is that of a file, with single spaces. Raises WrongOption: JUDGE_RULE."""
    name = " ".join(text.split())
    if not _is_judge_name(name):
        raise WrongOption(f"judge: {name[:80]!r} cannot be the name of a judge; take {JUDGE_RULE}")
    return name


def _is_judge_name(text: str) -> bool:
    return len(text) <= MOST_CHARACTERS and re.fullmatch(JUDGE, text) is not None


def judge_files(folder: Path) -> list[Path]:
    """Returns the files of the judges in a folder, in order of name.

    Hidden files and those of another suffix belong to editors and systems. Raises EvaluationError, which states what to
    do, for a folder that is gone, and for any other file that cannot be a judge's: it may hold grades.
    """
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix == SUFFIX and not path.name.startswith("."))
    except OSError as error:
        raise _no_folder(folder) from error
    for path in files:
        if not _is_judge_name(path.stem) or not path.is_file():
            raise EvaluationError(
                f"{path}: is no file of a judge: these are named by {JUDGE_RULE}; rename it, or move the file out of "
                "the folder"
            )
    return files


class JudgmentLog:
    """Reads and writes `<judge>.jsonl`. Several processes may append to it; a lock keeps their lines apart."""

    def __init__(self, folder: Path, judge: str) -> None:
        self.judge = judge
        self.path = folder / f"{judge}{SUFFIX}"

    def append(self, pair: PooledPair, grade: int | None) -> None:
        """Writes a grade, or a skip (None). Raises EvaluationError for a grade out of range and a disk that fails.

        Writes nothing where this is the last action that stands: a form that is sent twice is one action to take back.
        """
        with self._locked() as file:
            standing = self._standing_lines()
            if standing and (standing[-1].pair, standing[-1].grade) == (pair, grade):
                return
            self._write(file, "skip" if grade is None else "grade", pair, grade)

    def undo(self) -> PooledPair | None:
        """Takes back the last action that stands and returns its pair; None, and no line, where there is none."""
        with self._locked() as file:
            standing = self._standing_lines()
            if not standing:
                return None
            self._write(file, "undo", standing[-1].pair, None)
            return standing[-1].pair

    def standing(self) -> StandingJudgments:
        """Reads what stands. Raises EvaluationError: with `file:line` for a damaged line, and without the folder."""
        grades: dict[PooledPair, int] = {}
        skipped: set[PooledPair] = set()
        for line in self._standing_lines():
            grades.pop(line.pair, None)
            skipped.discard(line.pair)
            if line.grade is None:
                skipped.add(line.pair)
            else:
                grades[line.pair] = line.grade
        return StandingJudgments(grades, skipped)

    def _standing_lines(self) -> list[JudgmentLine]:
        standing: list[JudgmentLine] = []
        for number, line in self._lines():
            if line.action != "undo":
                standing.append(line)
            elif not standing or standing.pop().pair != line.pair:
                raise EvaluationError(
                    f"{self.path}:{number}: takes back what is not the last action of {self.judge}; {WAY_OUT}"
                )
        return standing

    def _lines(self) -> Iterator[tuple[int, JudgmentLine]]:
        """Yields every whole line. The last one has no line feed while it is being written, or after a kill."""
        for number, line in enumerate(self._content().split(b"\n")[:-1], start=1):
            try:
                judgment = JudgmentLine.from_record(line)
            except ValidationError as error:
                reason = error.errors()[0]["msg"]
                raise EvaluationError(f"{self.path}:{number}: not a judgment: {reason}; {WAY_OUT}") from error
            if judgment.judge != self.judge:
                raise EvaluationError(
                    f"{self.path}:{number}: of the judge {judgment.judge}, in the file of {self.judge}; {WAY_OUT}"
                )
            yield number, judgment

    def _content(self) -> bytes:
        try:
            return read_regular(self.path)
        except FileNotFoundError as error:
            if not self.path.parent.is_dir():
                raise _no_folder(self.path.parent) from error
            return b""
        except OSError as error:
            raise EvaluationError(
                f"{self.path}: {error.strerror}; let it be read, or move the file out of the folder"
            ) from error

    @contextmanager
    def _locked(self) -> Iterator[int]:
        fresh = not self.path.exists()
        try:
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if fresh:
                    sync_folder(self.path.parent)
                self._drop_torn_line(file)
                yield file
            finally:
                os.close(file)  # ends the lock too
        except OSError as error:
            raise EvaluationError(f"{self.path}: not written: {error.strerror}; this judgment is lost") from error

    def _drop_torn_line(self, file: int) -> None:
        """Cuts off what a killed process wrote of its last line: it was never acknowledged."""
        content = read_regular(self.path)
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(file, whole)

    def _write(self, file: int, action: Action, pair: PooledPair, grade: int | None) -> None:
        try:
            line = JudgmentLine(
                action=action,
                query=pair.query,
                document=pair.document,
                grade=grade,
                judge=self.judge,
                utc=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            )
        except ValidationError as error:
            raise EvaluationError(f"judgment: {error.errors()[0]['msg']}; a grade is 0 to {MOST_GRADE}") from error
        content = line.model_dump_json(exclude_none=True).encode() + b"\n"
        while content:
            content = content[os.write(file, content) :]
        os.fsync(file)


def _no_folder(folder: Path) -> EvaluationError:
    # A session is made with it: without it, grades are lost that no judge has taken back.
    return EvaluationError(
        f"{folder}: no such folder, so what judges did is not known; put it back from a copy (an empty one begins the "
        "judging anew)"
    )
