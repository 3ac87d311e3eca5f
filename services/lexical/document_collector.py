"""Collects the documents of one answer within its bounds: refuses larger ones, or cuts texts to equal shares. Pure."""

import json
from collections.abc import Iterable
from dataclasses import dataclass

from services.chassis.errors import AnswerTooLarge
from services.contracts import documents

# Characters that JSON escapes to two bytes; documents have no other control characters.
_ESCAPED = '"\\\n\r\t'
# Bytes of keys, quotes and commas of one document.
_PUNCTUATION_BYTES = 48


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Which parts of documents to read, and when all together are too many: `cut_to_bytes` cuts their texts then."""

    include: tuple[documents.StoredPart, ...] = documents.ALL_PARTS
    cut_to_bytes: int | None = None
    most_bytes: int = documents.MOST_ANSWER_BYTES

    @classmethod
    def from_request(cls, request: documents.FetchRequest) -> "ReadOptions":
        """Returns the options of a request."""
        read = request.include if request.highlight is None else (*request.include, "title", "text")
        return cls(tuple(dict.fromkeys(read)), request.cut_to_bytes)


WHOLE = ReadOptions()


def beside_hits(include: tuple[documents.StoredPart, ...]) -> ReadOptions:
    """Returns the options to read these parts of the documents of hits."""
    return ReadOptions(include, most_bytes=documents.MOST_BESIDE_HITS_BYTES)


def wire_bytes(document: documents.Document) -> int:
    """Returns the bytes of a document in an answer."""
    metadata = len(json.dumps(document.metadata, ensure_ascii=False).encode()) if document.metadata else 2
    expansions = 0 if document.expansions is None else len(document.expansions.model_dump_json())
    texts = sum(_json_bytes(text) for text in (document.id, document.title, document.text))
    return _PUNCTUATION_BYTES + metadata + expansions + texts


class DocumentCollector:
    """Collects the requested documents. Counts bytes document by document, so nothing is serialised twice."""

    def __init__(self, ids: Iterable[str], reading: ReadOptions) -> None:
        self.ids = tuple(dict.fromkeys(ids))
        self._cut_to_bytes = reading.cut_to_bytes
        self._most_bytes = reading.most_bytes
        self._documents: dict[str, documents.Document] = {}
        self._cut_ids: set[str] = set()
        self._bytes = 0
        self._values = 0
        self._share: int | None = None  # most characters of each, once the total has too many bytes

    def add(self, document: documents.Document) -> None:
        """Adds a document. Raises AnswerTooLarge if the total exceeds one answer and must not be cut."""
        self._documents[document.id] = document
        self._bytes += wire_bytes(document)
        self._values += sum(len(value) if isinstance(value, tuple) else 1 for value in document.metadata.values())
        if self._cut_to_bytes is None:
            self._refuse_too_large()
        elif self._share is not None:
            self._cut(document)
        elif self._bytes > self._cut_to_bytes:
            self._share = max(1, self._cut_to_bytes // len(self.ids) // 4)  # a character has at most 4 bytes in UTF-8
            for collected in list(self._documents.values()):
                self._cut(collected)

    def answer(self) -> documents.FetchedDocuments:
        """Returns the documents in the order of the ids, each once."""
        return documents.FetchedDocuments(
            documents=tuple(self._documents[identity] for identity in self.ids if identity in self._documents),
            missing=tuple(identity for identity in self.ids if identity not in self._documents),
            cut=tuple(identity for identity in self.ids if identity in self._cut_ids),
        )

    def _refuse_too_large(self) -> None:
        for size, most, unit in (
            (self._bytes, self._most_bytes, "bytes"),
            (self._values, documents.MOST_ANSWER_VALUES, "metadata values"),
        ):
            if size > most and len(self._documents) > 1:
                raise AnswerTooLarge(
                    f"{len(self._documents)} of the {len(self.ids)} documents have {size} {unit} already, and an "
                    f"answer holds {most} at most: ask for fewer documents (fewer ids, a smaller top) or for less of "
                    "each (include)."
                )

    def _cut(self, document: documents.Document) -> None:
        """Cuts the passage, `<title> <text>`, to its share."""
        assert self._share is not None
        title = document.title[: self._share]
        text = document.text[: max(0, self._share - len(title) - 1)]
        if (title, text) != (document.title, document.text):
            self._documents[document.id] = document.model_copy(update={"title": title, "text": text})
            self._cut_ids.add(document.id)


def _json_bytes(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    return size + sum(map(text.count, _ESCAPED))
