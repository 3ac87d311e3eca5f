"""Reads relevance judgments (BEIR and TREC lines, JSON), and counts what reading corrects."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import ENCODED, decoded_id, plain_id
from evaluator.datasets.text_files import (
    HashedLines,
    decoded,
    find_one,
    known_columns,
    named_columns,
    separators_hint,
)
from evaluator.errors import DatasetError
from evaluator.progress import shown
from services.contracts.base import UNSENDABLE

SUFFIXES = (".tsv", ".txt", ".trec", ".qrels", ".json", ".jsonl")
# Nine digits: no gain overflows, and no float prints like this.
_GRADE = re.compile(r"-?[0-9]{1,9}(\.0+)?", re.ASCII)
QUERY_COLUMN = ("query-id", "qid", "query", "topic-id", "topic")
DOCUMENT_COLUMN = ("corpus-id", "docno", "doc-id", "docid", "document-id", "document", "passage-id", "pid")
GRADE_COLUMN = ("score", "grade", "relevance", "rel", "label", "judgment")
_COLUMNS = {"query": QUERY_COLUMN, "document": DOCUMENT_COLUMN, "grade": GRADE_COLUMN}


@dataclass(frozen=True, slots=True)
class JudgmentRow:
    """One judgment: its place in the file, plain ids, the grade as it is written."""

    place: str
    query: str
    document: str
    grade: str


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
    """Reads `query document grade` or `query iteration document grade`, separated by tabs or white space; or JSON.

    `.json` holds `{query: {document: grade}}`, or `{query: {}}` of each query where nothing is judged yet; `.jsonl`
    objects with `query-id`, `corpus-id` and `score`. Grades are written `1` or `1.0`. Quotes count within one cell of
    one line only. A judgment given twice is counted, two that differ are an error. Strict refuses what would otherwise
    be counted. Raises DatasetError.

    A first line that names the three columns, in any order and beside others, is a header: it decides, not the place.
    In a line of TREC whose iteration is `percent-encoded` (`ids.ENCODED`), as `export` writes it, ids are decoded.
    """
    lines = HashedLines(path)
    given: dict[str, dict[str, int]] = {}
    negative = duplicate = 0
    for row in _rows(path, lines):
        grade = _grade(row)
        judged = given.setdefault(row.query, {})
        if row.document in judged:
            if judged[row.document] != grade or strict:
                raise DatasetError(f"{row.place}: {row.query} {row.document} was judged {judged[row.document]} above")
            duplicate += 1
            continue
        if grade < 0:
            if strict:
                raise DatasetError(f"{row.place}: a negative judgment (without strict it counts as unjudged)")
            negative += 1
        judged[row.document] = grade
    if not given and not (given := _unjudged_queries(path)):
        raise DatasetError(f"{path}: no judgment in the whole file")
    grades = {
        query: {document: grade for document, grade in judged.items() if grade >= 0} for query, judged in given.items()
    }
    return Judgments(grades, negative, duplicate, lines.sha256)


def _grade(row: JudgmentRow) -> int:
    grade = read_grade(row.grade, row.place)
    if not row.query or not row.document:
        raise DatasetError(f"{row.place}: an empty id")
    return grade


def read_grade(text: str, place: str) -> int:
    """Returns the grade that a text is. Raises DatasetError."""
    if not _GRADE.fullmatch(text):
        raise DatasetError(
            f"{place}: the grade {text!r} is not a whole number of at most 9 digits, written like 1 or 1.0"
        )
    return int(text.partition(".")[0])


def _rows(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    match Path(path.name.removesuffix(".gz")).suffix:
        case ".json":
            return _of_one_object(path, lines)
        case ".jsonl":
            return _of_objects(path, lines)
        case _:
            return _of_lines(path, lines)


def _of_lines(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    columns: dict[str, int] | None = None
    width = 0  # of a header and all lines under it
    first = True
    for number, text in lines.texts():
        if not text.strip():
            continue
        cells = [plain_id(cell) for cell in (text.split("\t") if "\t" in text else text.split())]
        place = f"{path}:{number}"
        if first:
            first = False
            if (columns := named_columns(cells, _COLUMNS)) is not None:
                width = len(cells)
                continue
            _expect_no_header(cells, place)
        yield (
            _row(cells, place, spaced="\t" not in text) if columns is None else _named_row(cells, place, columns, width)
        )


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
    return JudgmentRow(place, query, document, cells[-1])


def _named_row(cells: list[str], place: str, columns: Mapping[str, int], width: int) -> JudgmentRow:
    if len(cells) != width:
        raise DatasetError(f"{place}: columns: {len(cells)}; the header has {width}")
    return JudgmentRow(place, *(cells[columns[name]] for name in ("query", "document", "grade")))


def _expect_no_header(cells: list[str], place: str) -> None:
    """Raises DatasetError for a first line with a word in place of the grade: a header that cannot be read by name."""
    if len(cells) > 1 and cells[-1][:1].isalpha():
        raise DatasetError(
            f"{place}: the grade {cells[-1]!r} is not a whole number; if this line is a header, it has to name three "
            f"columns ({known_columns(_COLUMNS)}){separators_hint(cells)}"
        )


class _JsonPairs(list[tuple[str, object]]):
    """An object of JSON with the keys that stand in it twice."""


def _of_objects(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{path}:{number}"
            names, values = zip(*(_pairs(_parsed(decoded(line, place), place), place) or [("", None)]), strict=True)
            columns = named_columns(names, _COLUMNS)
            if columns is None:
                raise DatasetError(
                    f"{place}: expected corpus-id, query-id, score; found {shown(', '.join(names))} "
                    f"(known are: {known_columns(_COLUMNS)})"
                )
            yield _json_row(place, *(values[columns[name]] for name in ("query", "document", "grade")))


def _of_one_object(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    for query, judged in _pairs(_parsed(lines.text(), str(path)), str(path)):
        place = f"{path}: {shown(query)}"
        for document, grade in _pairs(judged, place):
            yield _json_row(place, query, document, grade)


def _unjudged_queries(path: Path) -> dict[str, dict[str, int]]:
    """Returns the queries of a JSON file without a judgment, so that pipelines can be pooled for them."""
    if Path(path.name.removesuffix(".gz")).suffix != ".json":
        return {}
    return {plain_id(query): {} for query, _ in _pairs(_parsed(HashedLines(path).text(), str(path)), str(path))}


def _json_row(place: str, *cells: object) -> JudgmentRow:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < len(cells):
        raise DatasetError(f"{place}: {cells}: a query, a document and a grade are needed")
    query, document, grade = texts
    if UNSENDABLE.search(query) or UNSENDABLE.search(document):
        raise DatasetError(f"{place}: an id with control characters or lone surrogates, which no file carries")
    return JudgmentRow(place, plain_id(query), plain_id(document), grade.strip())


def _parsed(content: str, place: str) -> object:
    try:
        # Numbers stay as they are written, for the one check of grades.
        return json.loads(content, object_pairs_hook=_JsonPairs, parse_int=str, parse_float=str, parse_constant=str)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{place}: not JSON: {error}") from error


def _pairs(value: object, place: str) -> _JsonPairs:
    if not isinstance(value, _JsonPairs):
        raise DatasetError(f"{place}: not a JSON object")
    return value
