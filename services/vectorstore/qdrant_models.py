"""Our values as the Qdrant server's, and back."""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError
from qdrant_client import models

from services.contracts.collections import CollectionDeclaration
from services.contracts.retrieval import RetrievedHit
from services.storage.fields import Exists, OneOf, Requirement, Within
from services.storage.point_ids import point_id
from services.vectorstore.qdrant_vectors import qdrant_vector, vector_of
from services.vectorstore.representation import Dense, Representation, as_data, checked, of_data
from services.vectorstore.store import Made, Point, StoredPoint

# Bumped when the payload or the metadata changes its layout; another number is not opened.
LAYOUT = "1"
PUBLISHED_AT = "published_at"
KINDS = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "number": models.PayloadSchemaType.FLOAT,
    "date": models.PayloadSchemaType.FLOAT,
}


class _Kept(BaseModel):
    """The metadata of a collection of ours, as far as this release knows its keys."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    layout: Literal["1"]
    # Of the service that made it; None in those made before this was kept, which are told apart by their names alone.
    prefix: str | None = None
    # One of the two: the dimension alone for dense vectors by dot product, as ever; the representation of all others.
    dimension: int | None = None
    representation: dict[str, str | int] | None = None
    stamp: dict[str, str]
    declaration: str
    build: str | None = None


def metadata_of(made: Made, prefix: str) -> dict[str, object]:
    """What is kept with a collection, on the server (which has collection metadata from 1.16 on)."""
    match made.representation:
        case Dense(dimension=dimension, distance="dot"):
            vectors: dict[str, object] = {"dimension": dimension}
        case representation:
            vectors = {"representation": as_data(representation)}
    return {
        "layout": LAYOUT,
        "prefix": prefix,
        **vectors,
        "stamp": dict(made.stamp),
        "declaration": made.declaration.model_dump_json(),
        "build": made.build,
    }


def made_of(generation: str, info: models.CollectionInfo, prefix: str) -> Made | None:
    """What a collection was made of; None when it is not ours, or made by a release whose layout we cannot read."""
    try:
        kept = _Kept.model_validate(info.config.metadata)
        representation = Dense(kept.dimension) if kept.dimension is not None else of_data(kept.representation or {})
        declaration = CollectionDeclaration.model_validate_json(kept.declaration, extra="ignore")
    except ValidationError:
        return None
    if kept.prefix not in (None, prefix):
        return None
    return Made(generation, representation, kept.stamp, declaration, kept.build)


def published_at_of(info: models.CollectionInfo) -> float | None:
    """When it last became the published one, in Unix seconds."""
    at = (info.config.metadata or {}).get(PUBLISHED_AT)
    return None if at is None else float(at)


def point_struct(point: Point, representation: Representation) -> models.PointStruct:
    """A point with everything about its document in the payload."""
    return models.PointStruct(
        id=str(point_id(point.id)),
        vector=qdrant_vector(checked(point.vector, representation)),
        payload={
            "id": point.id,
            "content": point.content_hash,
            "passage": point.passage_hash,
            "fields": {field: list(values) for field, values in point.fields.items()},
        },
    )


def stored_point(record: models.Record, representation: Representation, *, vectors: bool) -> tuple[str, StoredPoint]:
    """The caller's id and what is held under it."""
    payload = record.payload or {}
    vector = vector_of(record.vector, representation) if vectors else None
    return payload["id"], StoredPoint(payload["content"], payload["passage"], vector)


def hits_of(points: Sequence[models.ScoredPoint]) -> list[RetrievedHit]:
    """Hits under the callers' ids."""
    return [RetrievedHit(id=(point.payload or {})["id"], score=point.score) for point in points]


def filter_of(where: Sequence[Requirement], exclude_ids: Sequence[str]) -> models.Filter | None:
    """All requirements met, and none of these ids."""
    if not where and not exclude_ids:
        return None
    excluded: list[models.Condition] = (
        [models.HasIdCondition(has_id=[str(point_id(one)) for one in exclude_ids])] if exclude_ids else []
    )
    return models.Filter(must=[_condition(one) for one in where], must_not=excluded)


def _condition(required: Requirement) -> models.Condition:
    key = f"fields.{required.field}"
    match required:
        case OneOf(values=values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
        case Within(ranges=ranges):
            return models.Filter(
                should=[models.FieldCondition(key=key, range=models.Range(gte=low, lte=high)) for low, high in ranges]
            )
        case Exists(present=True):
            return models.Filter(must_not=[models.IsEmptyCondition(is_empty=models.PayloadField(key=key))])
        case Exists():
            return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
