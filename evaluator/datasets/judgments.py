"""Reads relevance judgments (BEIR and TREC lines, JSON), and counts what reading corrects."""

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.datasets.ids import IdHashes, plain_id, shown
from evaluator.datasets.text_files import HashedLines, decoded, find_one
from evaluator.errors import DatasetError
from services.contracts.base import UNSENDABLE

SUFFIXES = (".tsv", ".txt", ".trec", ".qrels", ".json", ".jsonl")
# Nine digits: no gain overflows, and no float prints like this.
_GRADE = re.compile(r"-?[0-9]{1,9}(\.0+)?", re.ASCII)
_FIELDS = frozenset({"query-id", "corpus-id", "score"})


@dataclass(frozen=True, slots=True)
class JudgmentRow:
    """One judgment: its place in the file, plain ids, the grade as it is written."""

    place: str
    query: str
    document: str
    grade: str
    may_be_header: bool = False


@dataclass(frozen=True, slots=True)
class Judgments:
    """`grades[query][document]`, in file order. Negative judgments count as unjudged (trec_eval does the same).

    `header` is a first line that was taken for one (see `expect_header`).
    """

    grades: Mapping[str, Mapping[str, int]]
    negative: int
    duplicate: int
    sha256: str
    header: JudgmentRow | None = None


def qrels_file(directory: Path, split: str) -> Path:
    """Returns the file with the judgments of a split; `<split>.tsv` when there is none. Two are a DatasetError."""
    folder = directory / "qrels"
    return find_one(folder, [f"{split}{suffix}" for suffix in SUFFIXES]) or folder / f"{split}.tsv"


def read_judgments(path: Path, *, strict: bool = False) -> Judgments:
    """Reads `query document grade` or `query iteration document grade`, separated by tabs or white space; or JSON.

    `.json` holds `{query: {document: grade}}`, `.jsonl` objects with `query-id`, `corpus-id` and `score`. Grades are
    written `1` or `1.0`. Quotes count within one cell of one line only. A judgment given twice is counted, two that
    differ are an error. Strict refuses what would otherwise be counted. Raises DatasetError.

    A first line whose grade begins with a letter may be a header: whether its ids are none of the collection's is for
    the caller to check, who has the corpus (`expect_header`).
    """
    if not path.exists():
        there = sorted({other.name.split(".")[0] for other in path.parent.glob("*.*")})
        raise DatasetError(f"{path}: no such file; splits there: {', '.join(there) or 'none'}")
    lines = HashedLines(path)
    given: dict[str, dict[str, int]] = {}
    header = None
    negative = duplicate = 0
    for row in _rows(path, lines):
        if row.may_be_header and row.grade[:1].isalpha():
            header = row
            continue
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
    if not given:
        raise DatasetError(f"{path}: no judgment in the whole file")
    grades = {
        query: {document: grade for document, grade in judged.items() if grade >= 0} for query, judged in given.items()
    }
    return Judgments(grades, negative, duplicate, lines.sha256, header)


def expect_header(judgments: Judgments, queries: Container[str], documents: IdHashes) -> None:
    """Raises DatasetError when the line taken for a header names a query or a document: its grade was mistyped."""
    row = judgments.header
    if row is not None and (row.query in queries or not documents.missing([row.document])):
        raise _wrong_grade(row)


def _grade(row: JudgmentRow) -> int:
    if not _GRADE.fullmatch(row.grade):
        raise _wrong_grade(row)
    if not row.query or not row.document:
        raise DatasetError(f"{row.place}: an empty id")
    return int(row.grade.partition(".")[0])


def _wrong_grade(row: JudgmentRow) -> DatasetError:
    return DatasetError(f"{row.place}: the grade {row.grade!r} is not a whole number, written like 1 or 1.0")


def _rows(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    match Path(path.name.removesuffix(".gz")).suffix:
        case ".json":
            return _of_one_object(path, lines)
        case ".jsonl":
            return _of_objects(path, lines)
        case _:
            return _of_lines(path, lines)


def _of_lines(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    number, first = 0, True
    for line in lines:
        # Old files end their lines with a carriage return alone.
        for text in decoded(line, f"{path}:{number + 1}").removesuffix("\n").removesuffix("\r").split("\r"):
            number += 1
            if not text.strip():
                continue
            cells = [plain_id(cell) for cell in (text.split("\t") if "\t" in text else text.split())]
            place = f"{path}:{number}"
            if len(cells) not in (3, 4):
                raise DatasetError(f"{place}: {len(cells)} columns; expected query, document, grade (or the TREC four)")
            yield JudgmentRow(place, cells[0], cells[-2], cells[-1], may_be_header=first)
            first = False


class _JsonPairs(list[tuple[str, object]]):
    """An object of JSON with the keys that stand in it twice."""


def _of_objects(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            place = f"{path}:{number}"
            found = dict(_pairs(_parsed(line, place), place))
            if not found.keys() >= _FIELDS:
                raise DatasetError(f"{place}: expected {', '.join(sorted(_FIELDS))}; found {shown(', '.join(found))}")
            yield _json_row(place, found["query-id"], found["corpus-id"], found["score"])


def _of_one_object(path: Path, lines: HashedLines) -> Iterator[JudgmentRow]:
    for query, judged in _pairs(_parsed(b"".join(lines), str(path)), str(path)):
        place = f"{path}: {shown(query)}"
        for document, grade in _pairs(judged, place):
            yield _json_row(place, query, document, grade)


def _json_row(place: str, *cells: object) -> JudgmentRow:
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) < len(cells):
        raise DatasetError(f"{place}: {cells}: a query, a document and a grade are needed")
    query, document, grade = texts
    if UNSENDABLE.search(query) or UNSENDABLE.search(document):
        raise DatasetError(f"{place}: an id with control characters or lone surrogates, which no file carries")
    return JudgmentRow(place, plain_id(query), plain_id(document), grade.strip())


def _parsed(content: bytes, place: str) -> object:
    try:
        # Numbers stay as they are written, for the one check of grades.
        return json.loads(
            decoded(content, place), object_pairs_hook=_JsonPairs, parse_int=str, parse_float=str, parse_constant=str
        )
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{place}: not JSON: {error}") from error


def _pairs(value: object, place: str) -> _JsonPairs:
    if not isinstance(value, _JsonPairs):
        raise DatasetError(f"{place}: not a JSON object")
    return value
