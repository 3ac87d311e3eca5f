"""Reads and checks a collection in BEIR layout: corpus.jsonl, queries.jsonl, qrels/<split>.tsv. Sends nothing."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evaluator.datasets.judgments import read_judgments
from evaluator.datasets.metadata_schema import SchemaInference, sendable_metadata
from evaluator.errors import DatasetError
from services.contracts.base import UNSENDABLE, Count, Wire
from services.contracts.collections import FieldKind
from services.contracts.documents import Document

CORPUS, QUERIES = "corpus.jsonl", "queries.jsonl"
CORPUS_FIELDS = ("_id", "title", "text", "metadata")
# Bounds messages for a corpus that uses identifiers as field names.
MOST_NAMES = 32


class DatasetCounts(Wire):
    """Counts of the files, and of every correction made while reading them: nothing is dropped uncounted."""

    documents: Count
    queries: Count  # in queries.jsonl, judged or not
    judged_queries: Count
    queries_without_judgments: Count  # never sent
    judged_without_positives: Count  # sent; they score 0 by definition and count in every mean
    judgments: Count
    judged_documents_missing: Count  # judged, but not in the corpus; they stay in the denominators
    negative_judgments: Count  # treated as unjudged
    duplicate_judgments: Count
    self_retrieved: Count  # queries whose own text is a document under their own id
    query_characters_stripped: Count
    document_characters_stripped: Count  # control characters and lone surrogates
    metadata_values_dropped: Count  # nested, or under a name that the wire does not allow
    metadata_fields_undeclared: tuple[str, ...]  # of mixed kinds: stored, but not filterable
    fields_not_read: tuple[str, ...] = ()  # of the corpus (the first 32): BEIR has no such field


@dataclass(frozen=True, slots=True)
class Dataset:
    """A checked collection. Queries and judgments are in memory; documents are streamed from the file."""

    directory: Path
    split: str
    queries: Mapping[str, str]
    judgments: Mapping[str, Mapping[str, int]]
    self_retrieved: frozenset[str]
    schema: Mapping[str, FieldKind]
    counts: DatasetCounts
    hashes: Mapping[str, str]  # sha256 by file name

    def documents(self) -> Iterator[Document]:
        """Yields the corpus in file order."""
        return (found.document for found in _documents(self.directory / CORPUS))


@dataclass(frozen=True, slots=True)
class _ReadDocument:
    document: Document
    dropped: int  # metadata values
    unread: Set[str]  # fields
    place: str


def read_dataset(directory: Path, split: str = "test", *, strict: bool = False) -> Dataset:
    """Reads and checks every line once. Raises DatasetError with `file:line` for the first fault."""
    expect_dataset(directory)
    qrels = qrels_file(directory, split)
    judgments = read_judgments(qrels, strict=strict)
    queries, stripped = _queries(directory / QUERIES)
    orphans = [query for query in judgments.grades if query not in queries]
    if orphans:
        raise DatasetError(f"{qrels}: judged, but not in {QUERIES}: {', '.join(orphans[:5])} ({len(orphans)} in all)")
    ids: set[str] = set()
    own: set[str] = set()
    unread: set[str] = set()
    inference, dropped, stripped_documents, searchable = SchemaInference(), 0, 0, False
    for found in _documents(directory / CORPUS):
        document = found.document
        if document.id in ids:
            raise DatasetError(f"{found.place}: the id {document.id!r} stood above already")
        if found.dropped and strict:
            raise DatasetError(f"{found.place}: metadata that the wire does not carry (without strict it is dropped)")
        if found.unread and strict:
            raise DatasetError(
                f"{found.place}: {', '.join(sorted(found.unread))}: not read; "
                f"a BEIR corpus has {', '.join(CORPUS_FIELDS)}"
            )
        ids.add(document.id)
        unread |= found.unread
        searchable = searchable or bool(document.passage.strip())
        dropped += found.dropped
        stripped_documents += document.stripped
        inference.add(document.metadata)
        if document.id in queries and is_same_text(document, queries[document.id]):
            own.add(document.id)
    if not ids:
        raise DatasetError(f"{directory / CORPUS}:1: no document in the whole file")
    not_read = tuple(sorted(unread)[:MOST_NAMES])
    if not searchable:
        besides = f"; besides, there are: {', '.join(not_read)}" if not_read else ""
        raise DatasetError(f"{directory / CORPUS}: no document has a title or a text{besides}")
    missing = {name for judged in judgments.grades.values() for name in judged} - ids
    if missing and strict:
        raise DatasetError(f"{qrels}: judged, but not in {CORPUS}: {', '.join(sorted(missing)[:5])}")
    schema, mixed = inference.result()
    grades = judgments.grades
    counts = DatasetCounts(
        documents=len(ids),
        queries=len(queries),
        judged_queries=len(grades),
        queries_without_judgments=len(queries) - len(grades),
        judged_without_positives=sum(not any(grade > 0 for grade in judged.values()) for judged in grades.values()),
        judgments=sum(map(len, grades.values())),
        judged_documents_missing=len(missing),
        negative_judgments=judgments.negative,
        duplicate_judgments=judgments.duplicate,
        self_retrieved=len(own),
        query_characters_stripped=stripped,
        document_characters_stripped=stripped_documents,
        metadata_values_dropped=dropped,
        metadata_fields_undeclared=mixed,
        fields_not_read=not_read,
    )
    return Dataset(
        directory=directory,
        split=split,
        queries=queries,
        judgments=grades,
        self_retrieved=frozenset(own),
        schema=schema,
        counts=counts,
        hashes={path.name: sha256(path) for path in (directory / CORPUS, directory / QUERIES, qrels)},
    )


def expect_dataset(directory: Path) -> None:
    """Raises DatasetError when there is no corpus: a quick check before the gateway is waited for."""
    try:
        there = (directory / CORPUS).is_file()
    except OSError as error:
        raise DatasetError(f"{str(directory)[:200]}: {error.strerror}") from error
    if not there:
        raise DatasetError(f"{directory}: no {CORPUS} there; a BEIR directory has {CORPUS}, {QUERIES} and qrels/")


def qrels_file(directory: Path, split: str) -> Path:
    """Returns the file with the judgments of a split."""
    return directory / "qrels" / f"{split}.tsv"


def is_same_text(document: Document, query: str) -> bool:
    """Returns whether a query is the document's text (or title and text), white space apart: self-retrieval."""
    wanted = query.split()
    return document.text.split() == wanted or document.passage.split() == wanted


def _objects(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    try:
        file = path.open("rb")
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    with file:
        # Read as bytes, because only \n ends a line of JSON; str.splitlines would also split at U+2028.
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            place = f"{path}:{number}"
            try:
                value = json.loads(line.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:  # bad UTF-8 is a ValueError too
                raise DatasetError(f"{place}: not JSON in UTF-8: {error}") from error
            if not isinstance(value, dict):
                raise DatasetError(f"{place}: not a JSON object")
            yield place, value


def _documents(path: Path) -> Iterator[_ReadDocument]:
    for place, value in _objects(path):
        kept, dropped = sendable_metadata(value.get("metadata"))
        try:
            document = Document.model_validate(
                {
                    "id": _identity(value, place),
                    "title": value.get("title") or "",
                    "text": value.get("text") or "",
                    "metadata": kept,
                }
            )
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "document"
            raise DatasetError(f"{place}: {where}: {first['msg']}") from error
        yield _ReadDocument(document, dropped, value.keys() - set(CORPUS_FIELDS), place)


def _queries(path: Path) -> tuple[dict[str, str], int]:
    queries: dict[str, str] = {}
    stripped = 0
    for place, value in _objects(path):
        identity, text = _identity(value, place), value.get("text")
        if not isinstance(text, str):
            raise DatasetError(f"{place}: text: a string is needed")
        if identity in queries:
            raise DatasetError(f"{place}: the id {identity!r} stood above already")
        # The wire refuses these characters; documents are stripped of them too (services.contracts.documents).
        queries[identity], count = UNSENDABLE.subn("", text)
        stripped += count
    return queries, stripped


def _identity(value: dict[str, object], place: str) -> str:
    identity = value.get("_id")
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity:
        raise DatasetError(f"{place}: _id: a string is needed")
    if re.search(r"[\t\r\n]", identity):
        raise DatasetError(f"{place}: _id: a tab or line break, which no run file can carry")
    return identity


def sha256(path: Path) -> str:
    """Returns the sha256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
