"""Converts specs, points and filters to the Qdrant server's models, and back. qdrant_vectors.py converts vectors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from qdrant_client import models

from services.contracts.collections import CollectionDeclaration
from services.contracts.scored import Ranking, paired
from services.storage.fields import AllOf, AnyOf, Exists, NoneOf, OneOf, Requirement, Within
from services.storage.point_ids import point_id
from services.vectorstore.qdrant_vectors import qdrant_vector
from services.vectorstore.representation import (
    Dense,
    Representation,
    dump_representation,
    kept_vector,
    parse_representation,
    vector_of,
)
from services.vectorstore.store import GenerationSpec, Point, Publication, StoredPoint

# Incremented when the layout of payload or metadata changes. A collection of another layout is not opened.
LAYOUT = "1"
PUBLISHED_AT, PUBLICATION = "published_at", "publication"
KINDS = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "number": models.PayloadSchemaType.FLOAT,
    "date": models.PayloadSchemaType.FLOAT,
}


class _CollectionMetadata(BaseModel):
    """The metadata of one of our collections. Keys of newer releases are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    layout: Literal["1"]
    # Prefix of the service that created it.
    prefix: str
    # One of the two is set: `dimension` for dense vectors by dot product, or `representation`.
    dimension: int | None = None
    representation: dict[str, str | int] | None = None
    stamp: dict[str, str]
    declaration: str
    build: str | None = None
    owner: str | None = None


def metadata_of(spec: GenerationSpec, prefix: str) -> dict[str, object]:
    """Returns the metadata that the server stores with a collection."""
    match spec.representation:
        case Dense(dimension=dimension, distance="dot"):
            vectors: dict[str, object] = {"dimension": dimension}
        case representation:
            vectors = {"representation": dump_representation(representation)}
    return {
        "layout": LAYOUT,
        "prefix": prefix,
        **vectors,
        "stamp": dict(spec.stamp),
        "declaration": spec.declaration.model_dump_json(),
        "build": spec.build,
        **({} if spec.owner is None else {"owner": spec.owner}),
    }


def spec_of(generation: str, info: models.CollectionInfo, prefix: str) -> GenerationSpec | None:
    """Returns the spec of a collection, or None if it is not ours or has a layout of another release."""
    try:
        kept = _CollectionMetadata.model_validate(info.config.metadata)
        representation = (
            Dense(kept.dimension) if kept.dimension is not None else parse_representation(kept.representation or {})
        )
        declaration = CollectionDeclaration.model_validate_json(kept.declaration, extra="ignore")
    except ValidationError:
        return None
    if kept.prefix != prefix:
        return None
    return GenerationSpec(generation, representation, kept.stamp, declaration, kept.build, kept.owner)


def publication_of(info: models.CollectionInfo) -> Publication | None:
    """Returns when the collection was last published; None if never."""
    kept = info.config.metadata or {}
    at, number = kept.get(PUBLISHED_AT), kept.get(PUBLICATION)
    return None if at is None else Publication(float(at), None if number is None else int(number))


def point_struct(point: Point, representation: Representation, version: int | None) -> models.PointStruct:
    """Converts a point; the payload holds everything but the vector."""
    return models.PointStruct(
        id=str(point_id(point.id)),
        vector=qdrant_vector(kept_vector(point.vector, representation), representation),
        payload={
            "id": point.id,
            "version": version or 0,
            "content": point.content_hash,
            "passage": point.passage_hash,
            # As floats, which bounds are too: over REST the server reads both alike.
            "fields": {
                field: [one if isinstance(one, str) else float(one) for one in values]
                for field, values in point.fields.items()
            },
        },
    )


def stored_point(record: models.Record, representation: Representation, *, vectors: bool) -> tuple[str, StoredPoint]:
    """Returns the document's id and what is stored under it."""
    payload = record.payload or {}
    vector = vector_of(record.vector, representation) if vectors else None
    return payload["id"], StoredPoint(payload["content"], payload["passage"], vector)


def hits_of(points: Sequence[models.ScoredPoint]) -> Ranking:
    """Converts points to hits with the documents' ids."""
    return paired(((point.payload or {})["id"], point.score) for point in points)


def filter_of(where: Sequence[Requirement], exclude_ids: Sequence[str]) -> models.Filter | None:
    """Returns the filter that meets all requirements and excludes these ids; None if there is nothing to filter."""
    if not where and not exclude_ids:
        return None
    excluded: list[models.Condition] = (
        [models.HasIdCondition(has_id=[str(point_id(one)) for one in exclude_ids])] if exclude_ids else []
    )
    return models.Filter(must=[_condition(one) for one in where], must_not=excluded)


def ids_filter(ids: Iterable[str], before: int | None = None) -> models.Filter:
    """Returns the filter for the documents of these ids, of versions below `before`."""
    older = older_filter(before)
    these = models.HasIdCondition(has_id=[str(point_id(one)) for one in ids])
    return models.Filter(must=[these], must_not=None if older is None else older.must_not)


def contents_filter(contents: Mapping[str, str], before: int) -> models.Filter:
    """Returns the filter for the documents that have these content hashes, by id, of versions below `before`."""
    same: list[models.Condition] = []
    for one, content in contents.items():
        its_content = models.FieldCondition(key="content", match=models.MatchValue(value=content))
        same.append(models.Filter(must=[models.HasIdCondition(has_id=[str(point_id(one))]), its_content]))
    return ids_filter(contents, before).model_copy(update={"should": same})


def older_filter(before: int | None) -> models.Filter | None:
    """Returns the filter for documents below a version. None: of any."""
    if before is None:
        return None
    # Half a step below: over REST the server reads numbers of 16 digits, such as these, with an error.
    return models.Filter(must_not=[models.FieldCondition(key="version", range=models.Range(gt=before - 0.5))])


def _condition(required: Requirement) -> models.Condition:
    match required:
        case OneOf(field, values):
            return models.FieldCondition(key=_key(field), match=models.MatchAny(any=list(values)))
        case Within(field, ranges):
            return models.Filter(
                should=[models.FieldCondition(key=_key(field), range=models.Range(**one)) for one in ranges]
            )
        case Exists(field, present=True):
            return models.Filter(must_not=[_is_empty(field)])
        case Exists(field):
            return _is_empty(field)
        case AllOf(parts):
            return models.Filter(must=[_condition(part) for part in parts])
        case AnyOf(parts):
            return models.Filter(should=[_condition(part) for part in parts])
        case NoneOf(part):
            return models.Filter(must_not=[_condition(part)])


def _is_empty(field: str) -> models.IsEmptyCondition:
    return models.IsEmptyCondition(is_empty=models.PayloadField(key=_key(field)))


def _key(field: str) -> str:
    return f"fields.{field}"
