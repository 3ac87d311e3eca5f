"""One generation of the Edge engine: a folder with its record and its shard. Blocking; one thread at a time."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import qdrant_edge as edge
from pydantic import BaseModel, ConfigDict

from services.chassis.errors import BadInput, UpstreamFailed
from services.contracts.base import Generation
from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import DeleteReport, Document, DocumentsAnswer, IndexReport, ItemError
from services.contracts.retrieval import RetrievedHit
from services.lexical.analysis import joined_words_of
from services.lexical.edge_query import fields_of_presets
from services.lexical.presets import declared_presets
from services.vectorstore.edge_fields import INDEX_KINDS
from services.vectorstore.edge_files import replace
from services.vectorstore.edge_pages import Page, payload_page
from services.vectorstore.fields import fields_of
from services.vectorstore.identity import point_id
from services.vectorstore.write_order import overtaken

RECORD = "collection.json"
SHARD = "shard"


class Record(BaseModel):
    """A generation's collection.json: what was begun, and what decides its answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generation: Generation
    declaration: CollectionDeclaration
    stamp: dict[str, str]
    build: str | None = None
    published_at: float | None = None  # Unix seconds


@contextmanager
def edge_errors() -> Iterator[None]:
    """Qdrant Edge raises plain Exception, no class of its own; what it says is kept for the reader."""
    try:
        yield
    except Exception as error:
        if type(error) is not Exception and not isinstance(error, OSError):
            raise
        raise UpstreamFailed(f"The embedded text engine failed: {' '.join(str(error).split())[:300]}") from error


class EdgeGeneration:
    """Owns an open shard. The payload of a point holds the document, its content hash, its terms and its fields."""

    def __init__(self, record: Record, shard: edge.EdgeShard) -> None:
        self.record = record
        self._shard = shard
        self._text_fields = fields_of_presets(declared_presets(record.declaration))
        # The caller's ids of points that have been hits. A point's id is made from the caller's, so none of this is
        # ever out of date; reading a thousand of them from payloads takes 7 ms, from here 0.3 ms.
        self._ids: dict[edge.PointId, str] = {}

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Opens what `create` laid out. Raises UpstreamFailed when it cannot be read."""
        with edge_errors():
            record = Record.model_validate_json((folder / RECORD).read_bytes())
            return cls(record, edge.EdgeShard.load(str(folder / SHARD)))

    @classmethod
    def create(cls, folder: Path, record: Record) -> Self:
        """Lays an empty generation out in a new folder, its record last: a folder without one is a half-made one."""
        with edge_errors():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            shard = edge.EdgeShard.create(str(folder / SHARD), _config())
            for field in fields_of_presets(declared_presets(record.declaration)):
                shard.update(edge.UpdateOperation.create_field_index(field, _terms_index()))
            for field, kind in record.declaration.metadata.items():
                shard.update(edge.UpdateOperation.create_field_index(f"fields.{field}", INDEX_KINDS[kind]))
            shard.flush()
            replace(folder / RECORD, record.model_dump_json(indent=1))
            return cls(record, shard)

    def count(self) -> int:
        """Documents held."""
        return self._shard.count(edge.CountRequest(exact=True))

    def digest_page(self, page: Page) -> tuple[list[tuple[str, str]], Page | None]:
        """Ids and content hashes of a page of the documents, and the next page."""
        return payload_page(self._shard, "hash", page)

    def published(self, folder: Path, at: float) -> None:
        """Records that it becomes the published one at this moment (Unix seconds)."""
        record = self.record.model_copy(update={"published_at": at})
        with edge_errors():
            replace(folder / RECORD, record.model_dump_json(indent=1))
        self.record = record

    def index(self, documents: Sequence[Document], version: int | None) -> IndexReport:
        """Writes those that are new or changed, in one operation of the write-ahead log."""
        held = {
            payload["id"]: (payload["hash"], payload.get("version", 0))
            for payload in self._payloads([document.id for document in documents], ["id", "hash", "version"])
        }
        changed = [document for document in documents if held.get(document.id, ("", 0))[0] != document.content_hash]
        newer = _newer({document.id: held[document.id][1] for document in changed if document.id in held}, version)
        points: list[edge.Point] = []
        errors = [overtaken(document_id) for document_id in newer]
        for document in changed:
            if document.id in newer:
                continue
            try:
                points.append(self._point(document, version or 0))
            except BadInput as refused:
                errors.append(ItemError(id=document.id, reason=refused.detail))
        if points:
            self._shard.update(edge.UpdateOperation.upsert_points(points))
        return IndexReport(
            indexed=len(points),
            unchanged=len(documents) - len(changed),
            errors=tuple(errors),
            latest_version=max(newer.values(), default=None),
        )

    def delete(self, ids: Sequence[str], version: int | None) -> DeleteReport:
        """Removes those that are there and not newer."""
        held = {payload["id"]: payload.get("version", 0) for payload in self._payloads(ids, ["id", "version"])}
        newer = _newer(held, version)
        gone: list[edge.PointId] = [point_id(one) for one in held if one not in newer]
        if gone:
            self._shard.update(edge.UpdateOperation.delete_points(gone))
        return DeleteReport(
            deleted=len(gone),
            errors=tuple(overtaken(one) for one in newer),
            latest_version=max(newer.values(), default=None),
        )

    def get(self, ids: Sequence[str]) -> DocumentsAnswer:
        """The documents as they were given."""
        wanted = tuple(dict.fromkeys(ids))
        found = {
            payload["id"]: Document(
                id=payload["id"],
                title=payload["document"]["title"],
                text=payload["document"]["text"],
                metadata=json.loads(payload["document"]["metadata"]),
            )
            for payload in self._payloads(wanted, ["id", "document"])
        }
        return DocumentsAnswer(
            documents=tuple(found[one] for one in wanted if one in found),
            missing=tuple(one for one in wanted if one not in found),
        )

    def query(self, request: edge.QueryRequest) -> list[RetrievedHit]:
        """Edge's own order: best first, equal scores as they come."""
        points = self._shard.query(request)
        unknown = [point.id for point in points if point.id not in self._ids]
        if unknown:
            for record in self._shard.retrieve(unknown, with_payload=["id"], with_vector=False):
                if record.payload is not None:
                    self._ids[record.id] = record.payload["id"]
        return [RetrievedHit(id=self._ids[point.id], score=point.score) for point in points]

    def finish(self) -> None:
        """Merges what deletions left behind, and writes everything to its place on disk."""
        self._shard.optimize()
        self._shard.flush()

    def close(self) -> None:
        """Flushes and lets go of the files."""
        self._shard.flush()
        self._shard.close()

    def _payloads(self, ids: Sequence[str], keys: list[str]) -> Iterator["edge.Payload"]:  # a name of the stubs alone
        points: list[edge.PointId] = [point_id(one) for one in dict.fromkeys(ids)]
        for record in self._shard.retrieve(points, with_payload=keys, with_vector=False):
            if record.payload is not None:
                yield record.payload

    def _point(self, document: Document, version: int) -> edge.Point:
        fields = fields_of(document.metadata, self.record.declaration.metadata)
        title, text = joined_words_of(document.title), joined_words_of(document.text)
        terms: dict[str, Callable[[], str]] = {
            "title": lambda: title,
            "text": lambda: text,
            "contents": lambda: f"{title} {text}".strip(),
        }
        payload = {
            "id": document.id,
            "hash": document.content_hash,
            "version": version,
            # Metadata as text: JSON numbers that no engine type holds come back as they were given.
            "document": {
                "title": document.title,
                "text": document.text,
                "metadata": json.dumps(document.metadata, ensure_ascii=False),
            },
            "fields": {field: list(values) for field, values in fields.items()},
            **{field: terms[field]() for field in self._text_fields},
        }
        return edge.Point(point_id(document.id), [0.0], payload)


def _newer(held: Mapping[str, int], version: int | None) -> dict[str, int]:
    """Of the versions held, by id, those that a write of this version does not take the place of."""
    return {} if version is None else {one: there for one, there in held.items() if there >= version}


def _config() -> edge.EdgeConfig:
    # A shard needs vectors even when it is used for text alone; one zero is the least that it takes.
    return edge.EdgeConfig(vectors=edge.EdgeVectorParams(size=1, distance=edge.Distance.Dot))


def _terms_index() -> edge.TextIndexParams:
    """An index over terms that are ready: split at spaces, nothing dropped, nothing stemmed."""
    return edge.TextIndexParams(
        tokenizer=edge.TokenizerType.Whitespace,
        lowercase=False,
        stopwords=edge.StopwordsSet(languages=set(), custom=set()),
        stemmer=edge.DisabledStemmer(),
        scoring=True,
    )
