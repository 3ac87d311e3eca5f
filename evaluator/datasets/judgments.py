"""Reads relevance judgments in BEIR and TREC format, and counts what reading corrects."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from evaluator.errors import DatasetError


@dataclass(frozen=True, slots=True)
class Judgments:
    """`grades[query][document]`, in file order. Negative judgments count as unjudged (trec_eval does the same)."""

    grades: Mapping[str, Mapping[str, int]]
    negative: int
    duplicate: int


def read_judgments(path: Path, *, strict: bool = False) -> Judgments:
    """Reads `query document grade` or `query iteration document grade`, separated by tabs or white space.

    A first line whose grade is no number is a header. Grades like `1.0` are taken, `0.5` is not. A judgment given
    twice is counted, two that differ are an error. Strict refuses what would otherwise be counted.
    """
    grades: dict[str, dict[str, int]] = {}
    negative = duplicate = 0
    for number, columns in _rows(path):
        here = f"{path}:{number}"
        if len(columns) not in (3, 4):
            raise DatasetError(f"{here}: {len(columns)} columns; expected query, document, grade (or the TREC four)")
        query, document, text = columns[0], columns[-2], columns[-1]
        grade = _grade(text)
        if grade is None:
            if number == 1:
                continue
            raise DatasetError(f"{here}: the grade {text!r} is not a whole number")
        if not query or not document:
            raise DatasetError(f"{here}: an empty id")
        judged = grades.setdefault(query, {})
        if grade < 0:
            if strict:
                raise DatasetError(f"{here}: a negative judgment (without strict it counts as unjudged)")
            negative += 1
        elif document in judged:
            if judged[document] != grade or strict:
                raise DatasetError(f"{here}: {query} {document} was judged {judged[document]} above")
            duplicate += 1
        else:
            judged[document] = grade
    if not grades:
        raise DatasetError(f"{path}:1: no judgment in the whole file")
    return Judgments(grades, negative, duplicate)


def _rows(path: Path) -> list[tuple[int, list[str]]]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t")
            rows = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except FileNotFoundError as error:
        there = sorted(other.stem for other in path.parent.glob("*.tsv"))
        raise DatasetError(f"{path}: no such file; splits there: {', '.join(there) or 'none'}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise DatasetError(f"{path}: not readable as tab-separated UTF-8: {error}") from error
    return [(number, [cell.strip() for cell in row] if len(row) > 1 else row[0].split()) for number, row in rows]


def _grade(text: str) -> int | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None
