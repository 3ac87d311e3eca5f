"""Reads questions and the documents that answer them from a table (`query,document,grade`), and proposes others.

A proposed one is a sentence of a document, which alone answers it. Known-item search (Azzopardi, de Rijke and Balog,
SIGIR 2007) needs no judges. It favours lexical search, because a query has the words of its document.
"""

import difflib
import hashlib
import heapq
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from evaluator.datasets.corpus import corpus_documents
from evaluator.datasets.field_sources import named_field, table_rows
from evaluator.datasets.ids import plain_id, slug
from evaluator.datasets.judgments import DOCUMENT_COLUMN, GRADE_COLUMN, read_grade
from evaluator.datasets.placed_documents import ReadingNotes
from evaluator.datasets.queries import sent_query
from evaluator.datasets.text_files import HashedLines, known_columns
from evaluator.errors import DatasetError
from evaluator.progress import shown
from services.contracts.documents import Document
from services.contracts.words import FULL_STOPS, UNSPACED, word_pattern

QUERY_NAMES = ("query", "question")
DOCUMENT_NAMES = ("document", "title", *(name for name in DOCUMENT_COLUMN if name != "document"))
MOST_ID = 60
# Above it, looking for a similar name takes seconds a row.
MOST_COMPARED = 20_000
MOST_SAME = 5

LEAST_WORDS, MOST_WORDS = 6, 25
# Shares of letters below this are tables, addresses and code.
LEAST_LETTERS = 0.7
# Documents drawn for each proposal: some have no sentence that no other one has.
CANDIDATES = 3

# A single line break stands within a sentence: many texts are wrapped. Thai and Lao end one by a space.
_ENDS = re.compile(
    rf"(?<=[.!?])\s+|(?<=[{FULL_STOPS}])(?![{FULL_STOPS}\"'”’»)\]」』）】])\s*|(?<=[ก-ໟ]) +(?=[ก-ໟ])|\n\s*\n"
)


@dataclass(slots=True)
class DocumentNames:
    """The ids of a corpus, and its documents by title; case, white space and Unicode's form of titles do not count."""

    ids: set[str] = field(default_factory=set)
    titles: dict[str, list[str]] = field(default_factory=dict)
    written: dict[str, str] = field(default_factory=dict)  # a title as its first document has it

    def add(self, document: Document) -> None:
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
        compared = [*sorted(self.ids), *self.written.values()] if len(self.ids) <= MOST_COMPARED else []
        similar = difflib.get_close_matches(name, compared, 1)
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
        grade = named_field(cells, GRADE_COLUMN)
        try:
            identity = questions.add(sent_query(" ".join(cells[query].split()), f"{place}: query"), "given")
            if document is not None and cells[document].strip():
                written = cells[grade].strip() if grade is not None else ""
                document_id = names.id_of(cells[document], place)
                questions.judge(identity, document_id, read_grade(written or "1", place), place)
        except DatasetError as error:
            notes.wrong(error)
    if not questions.texts:
        notes.wrong(f"{path}: no question in the whole file")


def _plain(title: str) -> str:
    return unicodedata.normalize("NFC", " ".join(title.split()).casefold())


def known_items(corpus: Path, count: int, seed: int) -> dict[str, str]:
    """Returns at most `count` sentences, each with the id of the one document that has it; all of different documents.

    They are the same for the same corpus and seed. Documents are drawn by a hash of their id, so that a new document
    replaces few proposals. Reads the corpus twice.
    """
    drawn = heapq.nsmallest(CANDIDATES * count, _drawn(corpus, seed))
    owners = {sentence: document for _, document, sentences in drawn for sentence in sentences}
    repeated = {
        sentence
        for document in _documents(corpus)
        for sentence in owners.keys() & set(_sentences(document))
        if owners[sentence] != document.id
    }
    items: dict[str, str] = {}
    for _, document, sentences in drawn:
        own = next((sentence for sentence in sentences if sentence not in repeated), None)
        if own and len(items) < count:
            items[own] = document
    return items


def _drawn(corpus: Path, seed: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yields the hash by which a document is drawn, its id, and its sentences in the order of theirs."""
    for document in _documents(corpus):
        if sentences := sorted(_sentences(document), key=lambda sentence: _hash(seed, sentence)):
            yield _hash(seed, document.id), document.id, sentences


def _documents(corpus: Path) -> Iterator[Document]:
    return (read.document for read in corpus_documents(corpus, HashedLines(corpus)))


def _sentences(document: Document) -> list[str]:
    parts = [" ".join(part.split()) for part in _ENDS.split(document.text)]
    return [sentence for sentence in parts if _is_prose(sentence)]


def _is_prose(sentence: str) -> bool:
    """Returns whether a sentence can be a query; one that begins in lower case is the rest of `e.g. this`."""
    words = word_pattern(sentence).findall(sentence)
    # Runs of Thai and its like have about four characters a word. At most, two ideographs count as one word.
    unspaced = [word for word in words if UNSPACED.match(word)]
    count = len(words) + sum(len(word) // 4 for word in unspaced)
    if not LEAST_WORDS <= count <= MOST_WORDS + len(unspaced) / 2:
        return False
    letters = sum(unicodedata.category(character)[0] in "LMZ" for character in sentence)
    # Georgian letters count as lower-case ones, but begin sentences: they have no title case.
    return letters >= LEAST_LETTERS * len(sentence) and sentence[0] == sentence[0].title()


def _hash(seed: int, text: str) -> str:
    return hashlib.sha256(f"{seed} {text}".encode()).hexdigest()
