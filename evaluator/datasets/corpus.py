"""Reads the documents of a corpus one by one, and finds while reading what the gateway would refuse. Sends nothing."""

from collections.abc import Container, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evaluator.datasets.ids import read_id
from evaluator.datasets.metadata_schema import sendable_metadata
from evaluator.datasets.text_files import HashedLines, json_objects
from evaluator.errors import DatasetError
from services.contracts.documents import Document

CORPUS = "corpus.jsonl"
CORPUS_FIELDS = ("_id", "title", "text", "metadata")
# Names under which other tools keep what BEIR calls `text`.
OTHER_TEXTS = frozenset({"text", "contents", "content", "abstract", "body", "passage", "document"})
# Bounds of one document as it is sent: a body has at most 8 MB and 100,000 values, the envelope included.
MOST_DOCUMENT_BYTES = 7_500_000
MOST_DOCUMENT_VALUES = 90_000
MOST_METADATA_KEYS = 1_000
MOST_DIGITS = 40

_FIELDS = frozenset(CORPUS_FIELDS)
# A document is sent with at most this many times the bytes of its line: 1e15 becomes 1000000000000000.0.
_MOST_GROWTH = 4


@dataclass(frozen=True, slots=True)
class CorpusDocument:
    """A document, its place in the file, and what reading it decided."""

    document: Document
    dropped: int  # metadata values
    unread: Set[str]  # fields
    trimmed: bool  # its id
    text_elsewhere: bool  # none in `text`, but one under another name of a text
    place: str


def corpus_documents(
    path: Path, lines: HashedLines, positions: Container[int] | None = None
) -> Iterator[CorpusDocument]:
    """Yields every document in file order, or those at `positions`. Raises DatasetError with `file:line`."""
    for place, value, size in json_objects(path, lines, positions):
        yield corpus_document(value, size, place)


def corpus_document(value: Mapping[str, object], size: int, place: str) -> CorpusDocument:
    """Returns the document of a corpus' object, which takes `size` bytes as JSON. Raises DatasetError with `place`."""
    kept, dropped = sendable_metadata(value.get("metadata"))
    identity, trimmed = read_id(value.get("_id"), place)
    given: dict[str, object] = {"id": identity, "metadata": kept}
    for name in ("title", "text"):
        if value.get(name) is not None:
            given[name] = value[name]
    try:
        document = Document.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "document"
        raise DatasetError(f"{place}: {where}: {first['msg']}") from error
    _expect_sendable(document, size, place)
    unread = value.keys() - _FIELDS
    others = [value[name] for name in unread if name.casefold() in OTHER_TEXTS]
    elsewhere = not document.text.strip() and any(isinstance(other, str) and other.strip() for other in others)
    return CorpusDocument(document, dropped, unread, trimmed, elsewhere, place)


def sent_json(document: Document) -> bytes:
    """Returns a document as it is sent, with title and text: the wire refuses a document that has neither key."""
    return document.model_dump_json(exclude=None if document.metadata else {"metadata"}).encode()


def _expect_sendable(document: Document, size: int, place: str) -> None:
    metadata = document.metadata.values()
    numbers = (value for value in metadata if type(value) is int)
    for count, most, what in (
        (len(sent_json(document)) if size * _MOST_GROWTH > MOST_DOCUMENT_BYTES else 0, MOST_DOCUMENT_BYTES, "bytes"),
        (len(metadata), MOST_METADATA_KEYS, "metadata fields"),
        (sum(1 + len(value) if isinstance(value, tuple) else 1 for value in metadata), MOST_DOCUMENT_VALUES,
         "metadata values"),
        (max((len(str(number)) for number in numbers), default=0), MOST_DIGITS, "characters in a whole number"),
    ):  # fmt: skip
        if count > most:
            raise DatasetError(f"{place}: document {document.id!r}: {count} {what}; at most {most} can be sent")
