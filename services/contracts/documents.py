"""Owns the wire of documents: batches to index, ids to fetch or delete, and the reports about them."""

import hashlib
import json
from operator import not_
from typing import Annotated, Any, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    PrivateAttr,
    StrictBool,
    StrictFloat,
    StrictInt,
    model_validator,
)

from services.contracts.base import CONTROLS, UNSENDABLE, Count, DocumentId, FieldName, Name, Wire
from services.contracts.expansions import Expansions
from services.contracts.filters import Filter
from services.contracts.generations import Generation
from services.contracts.highlights import HighlightRequest, Highlights
from services.contracts.lists import Items, UnionMessage
from services.contracts.vectors import DocumentVector

MOST_METADATA_VALUES = 10_000
MetadataValue = Annotated[
    StrictBool
    | StrictInt
    | StrictFloat
    | str
    | Annotated[tuple[str, ...], Items(0, MOST_METADATA_VALUES, fail_fast=True)],
    UnionMessage("must be a text, a number, true or false, or a list of texts"),
]
# Orders writes: microseconds since 1970, raised where two writes would have the same.
WriteVersion = Annotated[int, Field(ge=1, lt=2**63)]
# Of copies from another generation: older than every write and deletion, so that they add only what is lacking.
COPIED_VERSION = 1
LatestVersion = Annotated[int | None, Field(exclude_if=lambda version: version is None)]
Included = Literal["title", "text", "metadata"]
StoredPart = Included | Literal["expansions"]
ALL_PARTS: tuple[StoredPart, ...] = ("title", "text", "metadata", "expansions")
# Most bytes of all documents in one answer (one document may exceed it): two of the largest request bodies.
MOST_ANSWER_BYTES = 16_000_000
# Most bytes of the documents that come with hits: as many as a re-ranker takes, so that none would have to be cut.
MOST_BESIDE_HITS_BYTES = 7_000_000
# Most metadata values of one answer, twice what a body may have: 16 MB hold millions, which take seconds to parse.
MOST_ANSWER_VALUES = 200_000


def _stripped(value: Any) -> tuple[Any, int]:
    """Drops unsendable characters from the strings of a JSON value. Returns the value and how many were dropped.

    Leaves nested and overlong lists unchanged: validation refuses them.
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
    # re.sub takes 0.1 s for 800,000 such characters, this a tenth.
    kept = text.encode("utf-8", "ignore").translate(None, CONTROLS).decode()
    return kept, len(text) - len(kept)


class Document(Wire):
    """A document under the caller's own id. Control characters are stripped from its text and counted (`stripped`)."""

    id: DocumentId
    title: str = ""
    text: str = ""
    metadata: dict[FieldName, MetadataValue] = {}
    # Left out without them, so that an earlier release reads the document.
    expansions: Annotated[Expansions | None, Field(exclude_if=lambda expansions: expansions is None)] = None
    _stripped: int = PrivateAttr(default=0)

    @model_validator(mode="wrap")
    @classmethod
    def _strip(cls, value: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        if not isinstance(value, dict):
            return handler(value)
        # The id belongs to the caller: it is checked, never altered.
        body, count = _stripped({key: part for key, part in value.items() if key != "id"})
        if isinstance(metadata := body.get("metadata"), dict):  # null means that there is no value
            body["metadata"] = {name: part for name, part in metadata.items() if part is not None}
        document = handler({**body, "id": value["id"]} if "id" in value else body)
        document._stripped = count
        return document

    @property
    def stripped(self) -> int:
        """Control characters and lone surrogates dropped from everything but the id."""
        return self._stripped

    @property
    def passage(self) -> str:
        """The text that neural models encode: `<title> <text>` (BEIR paper, section 4)."""
        return f"{self.title} {self.text}".strip()

    @property
    def content_hash(self) -> str:
        """sha256 over everything but the id: with an equal hash, nothing is indexed or encoded again."""
        parts: list[object] = [self.title, self.text, self.metadata]
        if self.expansions is not None:  # the hashes of other documents stay those of earlier releases
            parts.append(self.expansions.model_dump())
        return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


class DocumentWithVectors(Document):
    """A document with its dense vectors by backend. They are no part of `content_hash`: a model determines them."""

    vectors: Annotated[dict[Name, DocumentVector], Field(max_length=32, exclude_if=not_)] = {}


class SentDocument(DocumentWithVectors):
    """A document of a batch, with a title, a text or both. It replaces all that its id held, also the metadata.

    Of a passage with a vector, a backend stores that in place of encoding the passage.
    """

    # `not` twice: generators take `anyOf` for a union of types, and make no class.
    model_config = ConfigDict(
        json_schema_extra={
            "required": ["id"],
            "not": {"not": {"anyOf": [{"required": ["title"]}, {"required": ["text"]}]}},
        }
    )

    text: str  # without a default, so that the gateway forwards an empty one: `exclude_defaults` would leave it out

    @model_validator(mode="before")
    @classmethod
    def _has_content(cls, value: Any) -> Any:
        if not isinstance(value, dict) or "text" in value:
            return value
        if "title" not in value:
            raise ValueError(
                'must have a title or a text: it replaces all that its id held; send "text": "" for an empty document'
            )
        return {**value, "text": ""}


class IndexRequest(Wire):
    """A batch: at most 256 documents, ids unique within it."""

    # Only the first faulty document is reported: each can have as many faults as fit into the body.
    documents: Annotated[tuple[SentDocument, ...], Items(1, 256, fail_fast=True)]

    @model_validator(mode="after")
    def _unique(self) -> Self:
        first: dict[str, int] = {}
        for place, document in enumerate(self.documents):
            if (before := first.setdefault(document.id, place)) != place:
                raise ValueError(f"documents.{place}: its id '{document.id}' is also that of documents.{before}")
        return self


class MetadataUpdate(Wire):
    """Metadata to set in a document; null removes a field, and fields that are not named stay."""

    id: DocumentId
    metadata: Annotated[dict[FieldName, MetadataValue | None], Field(min_length=1)]


class ItemError(Wire):
    """Why one document was not taken. `retryable`: it may be taken when sent again, because the service was full.

    `overtaken`: a newer write of its id was taken. That is final: sent again, it would replace the newer one.
    """

    id: str
    reason: str
    retryable: bool = False
    overtaken: Annotated[bool, Field(exclude_if=not_)] = False


class ReadTokens(Wire):
    """How much a model read of the texts that it encoded, in its tokens. `longer` ones have more than `limit`, together
    `longer_tokens`, of which it read all but `unread`. Of `foreign` ones it read `foreign_tokens`, of which `unknown`,
    above a tenth of each, are not in its vocabulary."""

    limit: Count
    longer: Count
    longer_tokens: Count
    unread: Count
    foreign: Count
    foreign_tokens: Count
    unknown: Count


class IndexReport(Wire):
    """What one service did with a batch. `indexed` + `unchanged` + `errors` = documents sent.

    `latest_version` is the highest version of a write that overtook this one; the gateway advances its clock to it.
    """

    indexed: Count
    unchanged: Count
    errors: tuple[ItemError, ...] = ()
    encoded: Count = 0  # texts that went through a model; 0 for a service without one
    read: Annotated[ReadTokens | None, Field(exclude_if=lambda read: read is None)] = None  # as far as it is known
    latest_version: LatestVersion = None


class IdsRequest(Wire):
    """Documents by id, to fetch or to delete."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ids": ["kettle"]}]})

    ids: Annotated[tuple[DocumentId, ...], Items(1, 1_000)]


class IdPageRequest(Wire):
    """Asks for the ids that follow `after`, the `following` of the page before; None begins. With a filter, only for
    those of documents that pass it."""

    after: Annotated[str, Field(min_length=1, max_length=520)] | None = None
    most: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 1_000
    filter: Annotated[Filter | None, Field(exclude_if=lambda wanted: wanted is None)] = None


class IdPage(Wire):
    """A page of the ids of a generation's documents, in the engine's order; `following` is None at the end."""

    ids: tuple[str, ...]
    following: str | None


class DocumentsPage(Wire):
    """A page of a generation's documents, in the document store's order; `following` is None at the end.

    It has fewer than were asked for where they are larger than an answer may be, and at most 100 with vectors.
    """

    generation: Generation
    documents: tuple[DocumentWithVectors, ...]
    following: str | None


class FetchRequest(IdsRequest):
    """Asks the document store for parts of documents, whole or cut.

    Whole documents above MOST_ANSWER_BYTES or MOST_ANSWER_VALUES in total are refused. With `cut_to_bytes`, title and
    text of each document are cut to an equal share when the total is larger.
    """

    include: Annotated[tuple[StoredPart, ...], Field(min_length=1, max_length=4)] = ALL_PARTS
    cut_to_bytes: Annotated[int, Field(strict=True, ge=1_000, le=MOST_ANSWER_BYTES)] | None = None
    highlight: Annotated[HighlightRequest | None, Field(exclude_if=lambda request: request is None)] = None

    @model_validator(mode="after")
    def _metadata_is_whole(self) -> Self:
        if self.cut_to_bytes is not None and not {"metadata", "expansions"}.isdisjoint(self.include):
            raise ValueError("cut_to_bytes: metadata and expansions cannot be cut; include title and text only")
        return self


class DocumentsAnswer(Wire):
    """The documents found, in the order of the ids asked for; ids without a document are in `missing`."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...] = ()


class FetchedDocuments(DocumentsAnswer):
    """The answer of the document store; `cut` names the documents that were cut. Parts not asked for have defaults.

    `highlights` are by id, where the request asks for them.
    """

    cut: tuple[str, ...] = ()
    highlights: Annotated[dict[str, Highlights], Field(exclude_if=not_)] = {}


class DeleteReport(Wire):
    """How many documents were deleted, and which were kept because a newer write had been taken."""

    deleted: Count
    errors: tuple[ItemError, ...] = ()
    latest_version: LatestVersion = None


class ServiceOutcome(Wire):
    """The result of a request at one backend, in the gateway's report."""

    backend: str
    status: Literal["ok", "failed"]
    report: IndexReport | DeleteReport | None = None
    reason: str | None = None


class FanOutReport(Wire):
    """The gateway's report of a batch: complete only when every service took every document.

    `undeclared_metadata` names the first 32 fields that were stored but that filters cannot use. `missing`: the ids
    without a document whose metadata could be changed. `more`: further documents pass the filter; send the request
    again.
    """

    collection: str
    complete: bool
    documents: Count
    stripped_characters: Count = 0
    undeclared_metadata: tuple[str, ...] = ()
    missing: Annotated[tuple[str, ...], Field(exclude_if=not_)] = ()
    more: Annotated[bool, Field(exclude_if=not_)] = False
    services: tuple[ServiceOutcome, ...]
