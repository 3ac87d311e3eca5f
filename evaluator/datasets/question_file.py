"""Reads questions, and which documents answer them, from a table: `query,document,grade`."""

import difflib
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from evaluator.datasets.field_sources import named_field, table_rows
from evaluator.datasets.ids import plain_id, slug
from evaluator.datasets.judgments import DOCUMENT_COLUMN, GRADE_COLUMN, read_grade
from evaluator.datasets.placed_documents import ReadingNotes
from evaluator.datasets.text_files import known_columns
from evaluator.errors import DatasetError
from evaluator.progress import shown
from services.contracts.base import QueryText
from services.contracts.documents import Document
from services.contracts.validation_messages import validation_message

QUERY_NAMES = ("query", "question")
DOCUMENT_NAMES = ("document", "title", *(name for name in DOCUMENT_COLUMN if name != "document"))
MOST_ID = 60
# Above it, looking for a similar name takes seconds a row.
MOST_COMPARED = 20_000
MOST_SAME = 5

_WIRE = TypeAdapter[str](QueryText)


@dataclass(slots=True)
class DocumentNames:
    """The ids of a corpus, and its documents by title; case, white space and Unicode's form of titles do not count."""

    ids: set[str] = field(default_factory=set)
    titles: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)  # a title as its first document has it

    def add(self, document: Document) -> None:
        """Adds a document."""
        self.ids.add(document.id)
        if title := _plain(document.title):
            self.titles.setdefault(title, []).append(document.id)
            self.written.setdefault(title, " ".join(document.title.split()))

    def id_of(self, name: str, place: str) -> str:
        """Returns the document of an id or a title. Raises DatasetError for none, and for a title of several."""
        if (identity := plain_id(name)) in self.ids:
            return identity
        documents = self.titles.get(_plain(name), [])
        if len(documents) == 1:
            return documents[0]
        if documents:
            named = ", ".join(documents[:MOST_SAME]) + (", …" if len(documents) > MOST_SAME else "")
            raise DatasetError(
                f"{place}: {shown(name)!r} is the title of {len(documents)} documents: name one by id: {named}"
            )
        similar: Sequence[str] = ()
        if len(self.ids) <= MOST_COMPARED:
            similar = difflib.get_close_matches(name, [*sorted(self.ids), *self.written.values()], 1)
        hint = f"; the most similar one is {similar[0]!r}" if similar else ""
        raise DatasetError(f"{place}: {shown(name)!r} is neither the id nor the title of a document{hint}")


@dataclass(slots=True)
class Questions:
    """Queries with their ids and origin, and the grades of documents."""

    texts: dict[str, str] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)
    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)  # by text
    _used: set[str] = field(default_factory=set)

    def add(self, text: str, origin: str) -> str:
        """Adds a query unless there is one of the same text. Returns its id, which is made of its words."""
        identity = self.ids.get(text)
        if identity is None:
            identity = self.ids[text] = slug(text, self._used, MOST_ID)
            self.texts[identity], self.origins[identity] = text, origin
        return identity

    def judge(self, query: str, document: str, grade: int, place: str) -> None:
        """Adds a judgment. Raises DatasetError where the document has another grade already."""
        before = self.grades.setdefault(query, {}).setdefault(document, grade)
        if before != grade:
            raise DatasetError(f"{place}: the grade of {shown(document)!r} is {before} above")


def read_questions(path: Path, names: DocumentNames, questions: Questions, notes: ReadingNotes) -> None:
    """Adds the queries and judgments of a CSV or TSV file. Wrong rows are faults of `notes`; raises DatasetError.

    Each row is a query, a document by id or title, and a grade. Without the column of grades, or in an empty cell, the
    grade is 1. A row without a document is a query without a judgment.
    """
    for place, cells in table_rows(path, notes):
        query, document = named_field(cells, QUERY_NAMES), named_field(cells, DOCUMENT_NAMES)
        if query is None or (document is None and len(cells) > 1):
            raise DatasetError(
                f"{path}:1: the columns are {shown(', '.join(cells))}; expected query, document and perhaps grade "
                f"({known_columns({'query': QUERY_NAMES, 'document': DOCUMENT_NAMES, 'grade': GRADE_COLUMN})})"
            )
        try:
            identity = questions.add(_query(cells[query], place), "given")
            if document is not None and cells[document].strip():
                document_id = names.id_of(cells[document], place)
                questions.judge(identity, document_id, _grade(cells, place), place)
        except DatasetError as error:
            notes.wrong(error)
    if not questions.texts:
        notes.wrong(f"{path}: no question in the whole file")


def _query(cell: str, place: str) -> str:
    text = " ".join(cell.split())
    try:
        return _WIRE.validate_python(text)
    except ValidationError as error:
        raise DatasetError(f"{place}: query: {validation_message(error.errors()[0])}") from error


def _grade(cells: Mapping[str, str], place: str) -> int:
    column = named_field(cells, GRADE_COLUMN)
    written = cells[column].strip() if column is not None else ""
    return read_grade(written, place) if written else 1


def _plain(title: str) -> str:
    return unicodedata.normalize("NFC", " ".join(title.split()).casefold())
