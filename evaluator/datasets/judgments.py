"""Reads relevance judgments (BEIR and TREC lines, JSON lines), and counts what reading corrects."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import ENCODED, decoded_id, plain_id, read_id
from evaluator.datasets.text_files import (
    HashedLines,
    find_one,
    json_objects,
    known_columns,
    named_columns,
    separators_hint,
)
from evaluator.errors import DatasetError
from evaluator.progress import shown

SUFFIXES = (".tsv", ".txt", ".trec", ".qrels", ".json", ".jsonl")  # .json: refused by what to write instead
# Nine digits: no gain overflows, and no float prints like this.
_GRADE = re.compile(r"-?[0-9]{1,9}(\.0+)?", re.ASCII)
QUERY_COLUMN = ("query-id", "qid", "query", "topic-id", "topic")
DOCUMENT_COLUMN = ("corpus-id", "docno", "doc-id", "docid", "document-id", "document", "passage-id", "pid")
GRADE_COLUMN = ("score", "grade", "relevance", "rel", "label", "judgment")
# The place of a judgment in its file, the plain ids of query and document, the grade as it is written.
JudgmentRow = tuple[str, str, str, str]
_COLUMNS = {"query": QUERY_COLUMN, "document": DOCUMENT_COLUMN, "grade": GRADE_COLUMN}


@dataclass(frozen=True, slots=True)
class Judgments:
    """`grades[query][document]`, in file order. Negative judgments count as unjudged (trec_eval does the same)."""

    grades: Mapping[str, Mapping[str, int]]
    negative: int
    duplicate: int
    sha256: str


def qrels_file(directory: Path, split: str) -> Path:
    """Returns the file with the judgments of a split. Raises DatasetError, naming the splits there, for none or two."""
    folder = directory / "qrels"
    if (file := find_one(folder, [f"{split}{suffix}" for suffix in SUFFIXES])) is not None:
        return file
    splits = sorted({other.name.split(".")[0] for other in folder.glob("*.*")})
    raise DatasetError(f"{folder / split}.tsv: no such file; splits there: {', '.join(splits) or 'none'}")


def read_judgments(path: Path, *, strict: bool = False) -> Judgments:
    """Reads `query document grade` or `query iteration document grade`, separated by tabs or white space.

    `.jsonl` holds objects with `query-id`, `corpus-id` and `score`. Grades are written `1` or `1.0`. A query with two
    empty cells has no judgment yet. Quotes count within one cell of one line only. A judgment given twice is counted,
    two that differ are an error. Strict refuses what would otherwise be counted. Raises DatasetError.

    A first line that names the three columns, in any order and beside others, is a header: it decides, not the place.
    In a line of TREC whose iteration is `percent-encoded` (`ids.ENCODED`), as `export` writes it, ids are decoded.
    """
    lines = HashedLines(path)
    given: dict[str, dict[str, int]] = {}
    negative = duplicate = 0
    suffix = Path(path.name.removesuffix(".gz")).suffix
    if suffix == ".json":
        raise DatasetError(
            f"{path}: one JSON object is not read; write a judgment in each line, of {path.stem}.tsv as query-id, "
            "corpus-id, score behind tabs (the last two empty: not judged yet)"
        )
    rows = _of_objects(path, lines) if suffix == ".jsonl" else _of_lines(path, lines)
    for place, query, document, written in rows:
        if query and not document and not written:
            given.setdefault(query, {})
            continue
        if not query or not document:
            raise DatasetError(f"{place}: an empty id")
        grade = read_grade(written, place)
        judged = given.setdefault(query, {})
        if document in judged:
            if judged[document] != grade or strict:
                raise DatasetError(f"{place}: {query} {document} was judged {judged[document]} above")
            duplicate += 1
            continue
        if grade < 0:
            if strict:
                raise DatasetError(f"{place}: a negative judgment (without strict it counts as unjudged)")
            negative += 1
        judged[document] = grade
    if not given:
        raise DatasetError(f"{path}: no judgment in the whole file")
    grades = {
        query: {document: grade for document, grade in judged.items() if grade >= 0} for query, judged in given.items()
    }
    return Judgments(grades, negative, duplicate, lines.sha256)


def read_grade(text: str, place: str) -> int:
    """Returns the grade that a text is. Raises DatasetError."""
    if not _GRADE.fullmatch(text):
        raise DatasetError(
            f"{place}: the grade {text!r} is not a whole number of at most 9 digits, written like 1 or 1.0"
        )
    return int(text.partition(".")[0])


def _of_lines(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    columns: dict[str, int] | None = None
    width = 0  # of the first line, and of all lines under a header
    for number, text in lines.texts():
        if not text.strip():
            continue
        cells = [plain_id(cell) for cell in (text.split("\t") if "\t" in text else text.split())]
        place = f"{path}:{number}"
        if not width:
            columns, width = named_columns(cells, _COLUMNS), len(cells)
            if columns is not None:
                continue
            if len(cells) > 1 and cells[-1][:1].isalpha():  # a header that cannot be read by name
                raise DatasetError(
                    f"{place}: the grade {cells[-1]!r} is not a whole number; if this line is a header, it has to name "
                    f"three columns ({known_columns(_COLUMNS)}){separators_hint(cells)}"
                )
        if columns is None:
            yield _row(cells, place, spaced="\t" not in text)
        elif len(cells) == width:
            yield place, cells[columns["query"]], cells[columns["document"]], cells[columns["grade"]]
        else:
            raise DatasetError(f"{place}: columns: {len(cells)}; the header has {width}")


def _row(cells: list[str], place: str, *, spaced: bool) -> JudgmentRow:
    # At white space, `q1, d1, 1` has three columns too, with ids that nothing else knows.
    if len(cells) not in (3, 4) or (spaced and all(cell.endswith(",") for cell in cells[:-1])):
        raise DatasetError(
            f"{place}: columns: {len(cells)}; expected query, document, grade (or the TREC four)"
            f"{separators_hint(cells)}"
        )
    query, document = cells[0], cells[-2]
    if len(cells) == 4 and cells[1] == ENCODED:
        query, document = decoded_id(query, place), decoded_id(document, place)
    return place, query, document, cells[-1]


def _of_objects(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    for place, fields, _ in json_objects(path, lines):
        columns = named_columns([*fields], _COLUMNS)
        if columns is None:
            raise DatasetError(
                f"{place}: expected corpus-id, query-id, score; there are {shown(', '.join(fields))} "
                f"(known are: {known_columns(_COLUMNS)})"
            )
        names, cells = [*fields], [*fields.values()]
        query, document = (read_id(cells[at], place, names[at])[0] for at in (columns["query"], columns["document"]))
        yield place, query, document, str(cells[columns["grade"]]).strip()
