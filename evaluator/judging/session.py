"""Opens a judging session: the pool with its texts, the actions of judges, and the next pair of a judge.

Several processes may judge in one folder at once, each judge in a file of its own: nothing that others write is kept in
memory. Making a session is left to `evaluator.judging.new_session`.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from evaluator.errors import EvaluationError, WrongOption, command_line
from evaluator.judging import session_files as files
from evaluator.judging.judge_next import JudgeNext
from evaluator.judging.judgment_log import WAY_OUT, JudgmentLog, StandingJudgments, judge_files, judge_name
from evaluator.judging.pool import JudgesGrades, PairGrades, PooledPair, graded_pairs
from evaluator.metrics.quality import Rankings
from services.files.regular_file import read_regular

# pool: as drawn, the same pairs for every judge; impact: by `judge_next`, without pairs that another judge has graded.
Order = Literal["pool", "impact"]


@dataclass(frozen=True, slots=True)
class ShownPair:
    """What a judge sees."""

    pair: PooledPair
    query: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgeProgress:
    """Pairs of the pool by what one judge did with them."""

    judge: str
    graded: int
    skipped: int
    left: int


class JudgingSession:
    """Reads and writes the folder of a session."""

    def __init__(self, folder: Path) -> None:
        """Opens a session. Raises EvaluationError where the folder is none."""
        self.folder = folder
        try:
            self.file = files.SessionFile.from_record(read_regular(folder / files.SESSION))
        except OSError as error:
            make = command_line("judge", "pool", "latest")
            raise EvaluationError(
                f"{folder}: no judging session there ({error.strerror}); `{make}` makes one"
            ) from error
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise EvaluationError(
                f"{folder / files.SESSION}: not of this version: {reason}; make a new pool"
            ) from error
        self.pairs = tuple(
            PooledPair(line.query, line.document) for line in files.read_lines(folder / files.POOL, files.PooledLine)
        )
        self._queries = {line.id: line.text for line in files.read_lines(folder / files.QUERY_TEXTS, files.QueryText)}

    @cached_property
    def _documents(self) -> files.DocumentTexts:
        return files.DocumentTexts(self.folder / files.DOCUMENT_TEXTS)

    @property
    def judges(self) -> tuple[str, ...]:
        """The names of all who have judged, in order of name. Raises as `judge_files`."""
        return tuple(path.stem for path in judge_files(self.folder / files.JUDGES))

    def standing(self, judge: str) -> StandingJudgments:
        """Reads a judge's standing judgments. Raises EvaluationError for a damaged file or a pair of another pool."""
        standing = self._log(judge).standing()
        if strange := (standing.grades.keys() | standing.skipped) - self._places.keys():
            pair = min(strange)
            path = self._log(judge).path
            raise EvaluationError(f"{path}: {pair.query} {pair.document} is not in this pool; {WAY_OUT}")
        return standing

    def grades(self) -> JudgesGrades:
        """Reads the standing grades of every judge."""
        standing = {judge: self.standing(judge).grades for judge in self.judges}
        return {judge: grades for judge, grades in standing.items() if grades}

    def graded(self) -> list[PairGrades]:
        """Reads every pair that any judge has graded."""
        return graded_pairs(self.grades())

    def progress(self) -> list[JudgeProgress]:
        """Returns how far each judge is."""
        return [self.progress_of(judge) for judge in self.judges]

    def progress_of(self, judge: str) -> JudgeProgress:
        """Returns how far one judge is, also one who has not begun."""
        standing = self.standing(judge)
        graded, skipped = len(standing.grades), len(standing.skipped)
        return JudgeProgress(judge, graded, skipped, len(self.pairs) - graded - skipped)

    def next_pair(self, judge: str, order: Order = "pool") -> ShownPair | None:
        """Returns the next pair that this judge has neither graded nor skipped; None where none is left.

        The first call in the order `impact` computes the weights, which takes seconds for the pool of thousands of
        queries. Raises EvaluationError in this order for a session of one pipeline.
        """
        standing = self.standing(judge)
        done = standing.grades.keys() | standing.skipped
        pairs = self.pairs if order == "pool" else self.order_by_impact()
        return next((self.shown(pair) for pair in pairs if pair not in done), None)

    def order_by_impact(self) -> list[PooledPair]:
        """Returns the pairs without a grade, first what can change the comparison most."""
        return self._judge_next.order({pair.pair: pair.majority for pair in self.graded()})

    def holds(self, pair: PooledPair) -> bool:
        return pair in self._places

    def shown(self, pair: PooledPair) -> ShownPair:
        """Returns the texts of a pair. Raises EvaluationError for one that is not in the pool."""
        if not self.holds(pair):
            raise EvaluationError(f"{pair.query} {pair.document}: not in the pool of {self.folder}")
        document = self._documents.read(pair.document)
        return ShownPair(pair, self._queries[pair.query], document.title, document.text)

    def grade(self, judge: str, pair: PooledPair, grade: int) -> None:
        """Writes a grade, which replaces an earlier one of this judge.

        Raises WrongOption for a grade above those of the collection, and EvaluationError as JudgmentLog does.
        """
        self.shown(pair)
        if grade >= len(self.file.scale):
            raise WrongOption(f"grade: {grade} is not among its grades: they end at {len(self.file.scale) - 1}")
        self._log(judge).append(pair, grade)

    def skip(self, judge: str, pair: PooledPair) -> None:
        """Writes that this judge does not grade the pair."""
        self.shown(pair)
        self._log(judge).append(pair, None)

    def undo(self, judge: str) -> PooledPair | None:
        """Takes back the last grade or skip of this judge, and returns its pair; None where there is none."""
        return self._log(judge).undo()

    @cached_property
    def _places(self) -> dict[PooledPair, int]:
        return {pair: at for at, pair in enumerate(self.pairs)}

    @cached_property
    def _judge_next(self) -> JudgeNext:
        rankings: list[Rankings] = [
            *files.read_content(self.folder / files.RANKINGS, files.RANKINGS_BY_PIPELINE).values()
        ]
        if len(rankings) < 2:
            raise EvaluationError(
                f"{self.folder}: one pipeline alone has no comparison; pool two, or judge in pool order"
            )
        known = files.read_content(self.folder / files.KNOWN, files.KNOWN_GRADES)
        return JudgeNext(rankings, self.file.queries, known, self.pairs)

    def _log(self, judge: str) -> JudgmentLog:
        return JudgmentLog(self.folder / files.JUDGES, judge_name(judge))
