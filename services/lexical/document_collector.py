"""Collects the documents of one answer within its bounds: refuses what is beyond, or cuts equal shares. Pure."""

import json
from dataclasses import dataclass

from services.chassis.errors import AnswerTooLarge
from services.contracts.documents import (
    MOST_ANSWER_BYTES,
    MOST_ANSWER_VALUES,
    Document,
    FetchedDocuments,
    FetchRequest,
    Included,
)

# Twice as long in JSON; documents carry no other control characters.
_ESCAPED = '"\\\n\r\t'
# Keys, quotes and commas of one document.
_AROUND = 48


@dataclass(frozen=True, slots=True)
class Reading:
    """Which parts of documents are read; `cut_to_bytes` cuts texts in place of refusing an answer that is too large."""

    include: tuple[Included, ...] = ("title", "text", "metadata")
    cut_to_bytes: int | None = None

    @classmethod
    def asked(cls, request: FetchRequest) -> "Reading":
        """As a request says."""
        return cls(request.include, request.cut_to_bytes)


WHOLE = Reading()


def wire_bytes(document: Document) -> int:
    """How many bytes a document has in an answer."""
    metadata = len(json.dumps(document.metadata, ensure_ascii=False).encode()) if document.metadata else 2
    return _AROUND + metadata + sum(_json_bytes(text) for text in (document.id, document.title, document.text))


class Collected:
    """The documents so far, of those asked for. Their bytes are counted one by one, so nothing is built twice."""

    def __init__(self, ids: tuple[str, ...], cut_to_bytes: int | None) -> None:
        self.ids = tuple(dict.fromkeys(ids))
        self._cut_to_bytes = cut_to_bytes
        self._found: dict[str, Document] = {}
        self._cut: set[str] = set()
        self._bytes = 0
        self._values = 0
        self._share: int | None = None  # characters, once all together are known to have too many bytes

    def add(self, document: Document) -> None:
        """Takes one in. Raises AnswerTooLarge when it is more than one answer holds and may not be cut."""
        self._found[document.id] = document
        self._bytes += wire_bytes(document)
        self._values += sum(len(value) if isinstance(value, tuple) else 1 for value in document.metadata.values())
        if self._cut_to_bytes is None:
            self._check_size()
        elif self._share is not None:
            self._shorten(document)
        elif self._bytes > self._cut_to_bytes:
            self._share = max(1, self._cut_to_bytes // len(self.ids) // 4)  # a character has at most 4 bytes in UTF-8
            for one in list(self._found.values()):
                self._shorten(one)

    def answer(self) -> FetchedDocuments:
        """In the order asked for, each once."""
        return FetchedDocuments(
            documents=tuple(self._found[one] for one in self.ids if one in self._found),
            missing=tuple(one for one in self.ids if one not in self._found),
            cut=tuple(one for one in self.ids if one in self._cut),
        )

    def _check_size(self) -> None:
        for size, most, unit in (
            (self._bytes, MOST_ANSWER_BYTES, "bytes"),
            (self._values, MOST_ANSWER_VALUES, "metadata values"),
        ):
            if size > most and len(self._found) > 1:
                raise AnswerTooLarge(
                    f"{len(self._found)} of the {len(self.ids)} documents have {size} {unit} already, and an answer "
                    f"holds {most} at most: ask for fewer documents (fewer ids, a smaller top) or for less of each "
                    "(include)."
                )

    def _shorten(self, document: Document) -> None:
        """Cuts the passage, `<title> <text>`, to its share."""
        assert self._share is not None
        title = document.title[: self._share]
        text = document.text[: max(0, self._share - len(title) - 1)]
        if (title, text) != (document.title, document.text):
            self._found[document.id] = document.model_copy(update={"title": title, "text": text})
            self._cut.add(document.id)


def _json_bytes(text: str) -> int:
    size = len(text) if text.isascii() else len(text.encode())
    return size + sum(map(text.count, _ESCAPED))
