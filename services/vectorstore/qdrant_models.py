"""Our values as the Qdrant server's, and back."""

from collections.abc import Sequence

import numpy as np
from qdrant_client import models

from services.chassis.errors import StampMismatch
from services.contracts.collections import CollectionDeclaration
from services.contracts.retrieval import RetrievedHit
from services.vectorstore.fields import Exists, OneOf, Requirement, Within
from services.vectorstore.identity import point_id
from services.vectorstore.store import Made, Point, StoredPoint, checked

# Bumped when the payload or the metadata changes its layout; another number is not opened.
LAYOUT = "1"
KINDS = {
    "keyword": models.PayloadSchemaType.KEYWORD,
    "number": models.PayloadSchemaType.FLOAT,
    "date": models.PayloadSchemaType.FLOAT,
}


def metadata_of(made: Made) -> dict[str, object]:
    """What is kept with a collection, on the server (which has collection metadata from 1.16 on)."""
    return {
        "layout": LAYOUT,
        "dimension": made.dimension,
        "stamp": dict(made.stamp),
        "declaration": made.declaration.model_dump_json(),
    }


def made_of(generation: str, info: models.CollectionInfo) -> Made:
    """What a collection was made of. Raises StampMismatch when it is none of ours."""
    kept = info.config.metadata or {}
    if kept.get("layout") != LAYOUT:
        raise StampMismatch(
            f"The collection {generation} on the Qdrant server has the layout {kept.get('layout', 'none')}, ours is "
            f"{LAYOUT}: remove it, set another DENSE_PREFIX, or, if the server is older than 1.16, update it."
        )
    return Made(
        generation=generation,
        dimension=int(kept["dimension"]),
        stamp={str(key): str(value) for key, value in kept["stamp"].items()},
        declaration=CollectionDeclaration.model_validate_json(kept["declaration"]),
    )


def point_struct(point: Point, dimension: int) -> models.PointStruct:
    """A point with everything about its document in the payload."""
    return models.PointStruct(
        id=str(point_id(point.id)),
        vector=checked(point.vector, dimension).tolist(),
        payload={
            "id": point.id,
            "content": point.content_hash,
            "passage": point.passage_hash,
            "fields": {field: list(values) for field, values in point.fields.items()},
        },
    )


def stored_point(record: models.Record, *, vectors: bool) -> tuple[str, StoredPoint]:
    """The caller's id and what is held under it."""
    payload = record.payload or {}
    vector = np.asarray(record.vector, dtype=np.float32) if vectors else None
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
