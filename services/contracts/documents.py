"""Documents on their way in, and what became of each of them."""

import hashlib
import json
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from services.contracts.base import CONTROLS, UNSENDABLE, Count, DocumentId, Wire
from services.contracts.lists import Items, OneFault

MOST_METADATA_VALUES = 10_000
MetadataValue = Annotated[
    StrictBool
    | StrictInt
    | StrictFloat
    | str
    | Annotated[tuple[str, ...], Items(0, MOST_METADATA_VALUES, first_fault=True)],
    OneFault("must be a text, a number, true or false, or a list of texts"),
]
# A batch's place in the order of writes: microseconds since 1970, or more where two would have the same.
WriteVersion = Annotated[int, Field(ge=1, lt=2**63)]
LatestVersion = Annotated[int | None, Field(exclude_if=lambda version: version is None)]
Included = Literal["title", "text", "metadata"]
# What the documents of one answer may have in all; a lone document is given whatever it has. Twice the largest body, so
# that every document of a batch can be had again.
MOST_ANSWER_BYTES = 16_000_000
# And of metadata values, twice what a body may have: 16 MB hold millions, which take whoever reads them seconds.
MOST_ANSWER_VALUES = 200_000
FieldName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$")]


def _stripped(value: Any) -> tuple[Any, int]:
    """A JSON value without unsendable characters in its strings, and how many were dropped.

    What no document may have, lists in lists and long ones, is left as it is, to be refused.
    """
    if isinstance(value, str):
        return _text_stripped(value)
    if isinstance(value, dict):
        parts = {key: _stripped(part) for key, part in value.items()}
        return {key: part for key, (part, _) in parts.items()}, sum(count for _, count in parts.values())
    if isinstance(value, list | tuple) and len(value) <= MOST_METADATA_VALUES:
        items = [_text_stripped(item) if isinstance(item, str) else (item, 0) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    return value, 0


def _text_stripped(text: str) -> tuple[str, int]:
    if not UNSENDABLE.search(text):
        return text, 0
    # A substitution takes 0.1 s for 800,000 of them, this a tenth.
    kept = text.encode("utf-8", "ignore").translate(None, CONTROLS).decode()
    return kept, len(text) - len(kept)


class Document(Wire):
    """A document under the caller's own id. Control characters are stripped from its text and counted (`stripped`)."""

    id: DocumentId
    title: str = ""
    text: str = ""
    metadata: dict[FieldName, MetadataValue] = {}
    _stripped: int = PrivateAttr(default=0)

    @model_validator(mode="wrap")
    @classmethod
    def _strip(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return handler(value)
        # The id is the caller's: it is checked, never altered.
        body, count = _stripped({key: part for key, part in value.items() if key != "id"})
        document = handler({**body, "id": value["id"]} if "id" in value else body)
        document._stripped = count
        return document

    @property
    def stripped(self) -> int:
        """Control characters and lone surrogates dropped from title, text and metadata."""
        return self._stripped

    @property
    def passage(self) -> str:
        """What neural models read: `<title> <text>` (BEIR paper, section 4)."""
        return f"{self.title} {self.text}".strip()

    @property
    def content_hash(self) -> str:
        """sha256 over everything but the id: equal hashes mean that nothing needs indexing or encoding again."""
        content = json.dumps([self.title, self.text, self.metadata], sort_keys=True, ensure_ascii=False)
        return hashlib.sha256(content.encode()).hexdigest()


class IndexRequest(Wire):
    """A batch: at most 256 documents, ids unique within it."""

    # The first document at fault is told, and no other: each can have as many faults as the body has room for.
    documents: Annotated[tuple[Document, ...], Items(1, 256, first_fault=True)]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        if len({document.id for document in self.documents}) < len(self.documents):
            raise ValueError("documents: the same id stands twice in one batch")
        return self


class ItemError(Wire):
    """Why one document was not taken. `retryable`: the same document, sent again, may be (there was no room for it just
    now, or a newer write of its id came first)."""

    id: str
    reason: str
    retryable: bool = False


class IndexReport(Wire):
    """What one service did with a batch. `indexed` + `unchanged` + `errors` = documents sent.

    `latest_version` is the highest version of a write that overtook this one: a clock behind it goes on from there.
    """

    indexed: Count
    unchanged: Count
    errors: tuple[ItemError, ...] = ()
    encoded: Count = 0  # passages that went through a model; 0 for a service without one
    latest_version: LatestVersion = None


class IdsRequest(Wire):
    """Documents by id, to fetch or to delete."""

    ids: Annotated[tuple[DocumentId, ...], Items(1, 1_000)]


class FetchRequest(IdsRequest):
    """What the document store is asked for: parts of documents, whole or cut.

    Whole documents of more than MOST_ANSWER_BYTES or MOST_ANSWER_VALUES together are refused. With `cut_to_bytes` the
    title and text of each are cut to an equal share instead, if all together have more.
    """

    include: Annotated[tuple[Included, ...], Field(min_length=1, max_length=3)] = ("title", "text", "metadata")
    cut_to_bytes: Annotated[int, Field(strict=True, ge=1_000, le=MOST_ANSWER_BYTES)] | None = None

    @model_validator(mode="after")
    def _metadata_is_whole(self) -> Self:
        if self.cut_to_bytes is not None and "metadata" in self.include:
            raise ValueError("cut_to_bytes: metadata cannot be cut; include title and text only")
        return self


class DocumentsAnswer(Wire):
    """The documents found, in the order of the ids asked for; ids without a document are in `missing`."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...] = ()


class FetchedDocuments(DocumentsAnswer):
    """The document store's answer: which of the documents were cut, too. What was not asked for is at its default."""

    cut: tuple[str, ...] = ()


class DeleteReport(Wire):
    """How many documents were there to be deleted, and which were not because a newer write had been taken."""

    deleted: Count
    errors: tuple[ItemError, ...] = ()
    latest_version: LatestVersion = None


class ServiceOutcome(Wire):
    """What became of a request at one backend, in the gateway's report."""

    backend: str
    status: Literal["ok", "failed"]
    report: IndexReport | DeleteReport | None = None
    reason: str | None = None


class FanOutReport(Wire):
    """The gateway's report of a batch: complete only when every service took every document.

    `undeclared_metadata` names fields (the first 32) that were kept whole but cannot be filtered by.
    """

    collection: str
    complete: bool
    documents: Count
    stripped_characters: Count = 0
    undeclared_metadata: tuple[str, ...] = ()
    services: tuple[ServiceOutcome, ...]
