"""Defines the files of a session folder and reads them: the pool, its texts, the rankings and the known judgments.

session.json    what the pool was made from; written last, so that an interrupted `judge pool` leaves no session
pool.jsonl      the pairs, in the order of judging: no system, no rank
queries.jsonl, documents.jsonl    the texts that judges read
rankings.json, known.json         rankings by pipeline and judgments before the pool: what the order `impact` weighs
judges/<judge>.jsonl              grades, skips and undos (`evaluator.judging.judgment_log`); the folder is made with it
"""

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from evaluator.datasets.added_judgments import AddedJudgments
from evaluator.errors import EvaluationError
from evaluator.judging.judgment_log import MOST_GRADE
from services.contracts.base import Count, Depth, Wire
from services.files.disk_writes import write_whole
from services.files.regular_file import open_regular, read_regular

SESSION, POOL, RANKINGS, KNOWN = "session.json", "pool.jsonl", "rankings.json", "known.json"
QUERY_TEXTS, DOCUMENT_TEXTS, JUDGES = "queries.jsonl", "documents.jsonl", "judges"

NEW_POOL = "make a new pool with `judge pool`"

RANKINGS_BY_PIPELINE = TypeAdapter(dict[str, dict[str, tuple[str, ...]]])
KNOWN_GRADES = TypeAdapter(dict[str, dict[str, int]])

# What the grades from 0 on mean, by the highest one.
SCALES = {
    1: ("not relevant", "relevant"),
    2: ("not relevant", "partly", "relevant"),
    MOST_GRADE: ("not relevant", "partly", "relevant", "answers in full"),
}

# As `write_lines` writes a DocumentText: the id before the texts.
_ID_FIRST = re.compile(rb'\{"id":("(?:[^"\\]|\\.)*")')

Line = TypeVar("Line", bound=Wire)
Content = TypeVar("Content")


class PoolSource(Wire):
    """A ranking that was pooled."""

    label: str
    run: str  # the run folder or run file as it was named
    pipeline: str
    run_file_sha256: str


class SessionFile(Wire):
    """session.json. Within a version, fields are only added."""

    schema_version: Literal[1] = 1
    created_utc: str
    dataset: str  # its directory
    split: str
    qrels_sha256: str
    added_judgments: tuple[AddedJudgments, ...]  # known before the pool, beside those of the dataset
    top: Depth
    seed: Count
    sources: tuple[PoolSource, ...]
    queries: tuple[str, ...]  # judged queries that all sources were asked, in their order
    pairs: Count
    not_in_corpus: Count  # pooled documents that the corpus lacks: left out, because they cannot be read
    # The different grades among the judgments before the pool; none where the dataset has no relevant document.
    known_grades: tuple[int, ...]

    @property
    def scale(self) -> tuple[str, ...]:
        """What each grade means that a judge may give: they end where the known ones end, which set the gain."""
        most = max(self.known_grades, default=MOST_GRADE)
        return SCALES[min(most, MOST_GRADE) if most > 0 else MOST_GRADE]

    @property
    def sentence(self) -> str:
        """What the pool is."""
        sources = ", ".join(source.label for source in self.sources)
        return (
            f"{self.pairs} pairs of {len(self.queries)} judged queries of {self.dataset}, split {self.split}: the "
            f"unjudged documents among the first {self.top} of {sources}."
        )

    @property
    def scale_remark(self) -> str:
        """Why the grades end where those of the collection do; empty where that is not below ours."""
        if len(self.scale) == MOST_GRADE + 1:
            return ""
        return (
            f"Grades end at {len(self.scale) - 1}, as in the judgments so far. The gain in nDCG is the grade: with "
            "higher ones your relevant documents would count more than theirs."
        )


class QueryText(Wire):
    """A line of queries.jsonl."""

    id: str
    text: str


class DocumentText(Wire):
    """A line of documents.jsonl."""

    id: str
    title: str
    text: str


class DocumentTexts:
    """Reads documents.jsonl one document at a time, by the position of its line.

    A pool of nine pipelines and 5,000 queries holds 100 MB of texts, of which a judge reads one at a time.
    """

    def __init__(self, path: Path) -> None:
        """Finds the lines. Raises EvaluationError for a file that is not there or holds another line."""
        self._path = path
        self._places: dict[str, int] = {}
        place = 0
        with _reading(path), open_regular(path) as file:
            for number, line in enumerate(file, start=1):
                identity = _ID_FIRST.match(line)
                if identity is None:
                    raise EvaluationError(f"{path}:{number}: no line of a document; {NEW_POOL}")
                self._places[json.loads(identity[1])] = place
                place += len(line)

    def read(self, document: str) -> DocumentText:
        """Returns the texts of a document that the pool holds. Raises EvaluationError for a damaged line."""
        with _reading(self._path, f": {document}"), open_regular(self._path) as file:
            file.seek(self._places[document])
            return DocumentText.from_record(file.readline())


class PooledLine(Wire):
    """A line of pool.jsonl."""

    query: str
    document: str


def read_lines(path: Path, model: type[Line]) -> list[Line]:
    """Reads JSON lines. Raises EvaluationError with `file:line`."""
    lines = []
    with _reading(path), open_regular(path) as file:
        for number, line in enumerate(file, start=1):
            with _reading(path, f":{number}"):
                lines.append(model.from_record(line))
    return lines


def read_content(path: Path, adapter: TypeAdapter[Content]) -> Content:
    """Reads a JSON file. Raises EvaluationError."""
    with _reading(path):
        return adapter.validate_json(read_regular(path))


@contextmanager
def _reading(path: Path, place: str = "") -> Iterator[None]:
    """Turns what a damaged or missing file raises into an EvaluationError. `place`: within the file."""
    try:
        yield
    except ValidationError as error:
        raise EvaluationError(f"{path}{place}: {error.errors()[0]['msg']}; {NEW_POOL}") from error
    except OSError as error:
        raise EvaluationError(f"{path}: {error.strerror}; {NEW_POOL}") from error


def write_lines(path: Path, values: Sequence[Wire]) -> None:
    """Writes values as JSON lines."""
    write_whole(path, "".join(value.model_dump_json() + "\n" for value in values), newline="\n")
