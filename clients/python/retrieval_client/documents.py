"""Owns documents, filters, and what writes report. Names and fields are those of the wire."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from pydantic import BaseModel, ConfigDict


class Condition(TypedDict):
    """`field op value`. `in` takes a list of values, `exists` takes true (its default) or false."""

    field: str
    op: Literal["eq", "in", "gt", "gte", "lt", "lte", "exists"]
    value: NotRequired[bool | int | float | str | Sequence[bool | int | float | str]]


# A document passes when it meets `all` parts, `any` of them, or does `not` meet the one: exactly one is given.
Filter = TypedDict(
    "Filter",
    {
        "all": "Sequence[Filter | Condition]",
        "any": "Sequence[Filter | Condition]",
        "not": "Filter | Condition",
    },
    total=False,
)

# Numbers, or dates as text: `from` inclusive, `to` exclusive.
Range = TypedDict("Range", {"from": int | float | str, "to": int | float | str}, total=False)


class Facet(TypedDict):
    """A count of documents by a field: the `top` most frequent values (10) of a keyword, or `ranges` of others."""

    field: str
    top: NotRequired[int]
    ranges: NotRequired[Sequence[Range]]


class Sort(TypedDict):
    """The order of documents that are listed, by a declared number or date."""

    field: str
    order: NotRequired[Literal["asc", "desc"]]


MetadataValue = bool | int | float | str | tuple[str, ...]


class Answer(BaseModel):
    """A frozen value that the gateway sent. Fields that a later gateway adds are ignored."""

    model_config = ConfigDict(frozen=True)


class GeneratedQueries(Answer):
    """Queries that a model generated for a document."""

    model: str
    queries: tuple[str, ...]


class WordFrequencies(Answer):
    """Frequencies that BM25 reads in place of how often a word occurs: `chain|14 oil|9`."""

    model: str
    words: str


class Expansions(Answer):
    """What models added to one document."""

    doc2query: GeneratedQueries | None = None
    deepct: WordFrequencies | None = None


class DocumentVector(Answer):
    """A document's dense vector by the model of this name."""

    model: str
    dense: tuple[float, ...]


class Document(Answer):
    """A document under the caller's own id."""

    id: str
    title: str = ""
    text: str = ""
    metadata: dict[str, MetadataValue] = {}
    expansions: Expansions | None = None


class DocumentWithVectors(Document):
    """A document with its dense vectors by backend."""

    vectors: dict[str, DocumentVector] = {}


# What can be sent: a document as it was read, or an object or a model with id, title, text and metadata.
SentDocument = BaseModel | Mapping[str, Any]


class DocumentsPage(Answer):
    """A page of the documents of a generation; `following` is None at the end."""

    generation: str
    documents: tuple[DocumentWithVectors, ...]
    following: str | None


class DocumentsAnswer(Answer):
    """The documents found, in the order of the ids asked for; ids without a document are in `missing`."""

    documents: tuple[Document, ...]
    missing: tuple[str, ...] = ()


class ItemError(Answer):
    """Why one document was not taken. `retryable`: it may be when it is sent again. `overtaken`: a newer write of its
    id was taken, which it would replace."""

    id: str
    reason: str
    retryable: bool = False
    overtaken: bool = False


class IndexReport(Answer):
    """What one service did with a batch."""

    indexed: int
    unchanged: int
    errors: tuple[ItemError, ...] = ()
    encoded: int = 0
    latest_version: int | None = None


class DeleteReport(Answer):
    """How many documents were deleted, and which were kept because a newer write had been taken."""

    deleted: int
    errors: tuple[ItemError, ...] = ()
    latest_version: int | None = None


class ServiceOutcome(Answer):
    """The result of a write at one backend: `ok` or `failed`."""

    backend: str
    status: str
    report: IndexReport | DeleteReport | None = None
    reason: str | None = None


class FanOutReport(Answer):
    """The report of a write: complete only when every service took every document.

    `more`: further documents pass the filter of a delete; send it again. `undeclared_metadata`: stored fields that
    filters cannot use.
    """

    collection: str
    complete: bool
    documents: int
    stripped_characters: int = 0
    undeclared_metadata: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    more: bool = False
    services: tuple[ServiceOutcome, ...]
