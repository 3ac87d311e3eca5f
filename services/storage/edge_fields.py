"""Translates metadata fields and filters for Qdrant Edge, for every engine built on it. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import qdrant_edge as edge

from services.contracts.collections import FieldKind
from services.storage.fields import Exists, OneOf, Requirement, Within
from services.storage.point_ids import point_id

INDEX_KINDS: Mapping[FieldKind, edge.PayloadSchemaType] = {
    "keyword": edge.PayloadSchemaType.Keyword,
    "number": edge.PayloadSchemaType.Float,
    "date": edge.PayloadSchemaType.Float,
}


def field_indexes(metadata: Mapping[str, FieldKind]) -> list[edge.UpdateOperation]:
    """Returns the operations that make Edge index the declared fields."""
    return [
        edge.UpdateOperation.create_field_index(f"fields.{field}", INDEX_KINDS[kind])
        for field, kind in metadata.items()
    ]


def edge_filter(requirements: Sequence[Requirement], exclude_ids: Sequence[str]) -> edge.Filter | None:
    """Returns the filter for all requirements and none of these ids; None without any."""
    if not requirements and not exclude_ids:
        return None
    excluded: list[edge.ConditionType] = (
        [edge.HasIdCondition({point_id(one) for one in exclude_ids})] if exclude_ids else []
    )
    return edge.Filter(must=[_condition(requirement) for requirement in requirements], must_not=excluded)


def ids_filter(ids: Iterable[str]) -> edge.Filter:
    """Returns the filter for the documents of these ids."""
    return edge.Filter(must=[edge.HasIdCondition({point_id(one) for one in ids})])


def _condition(requirement: Requirement) -> "edge.ConditionType":  # a name of the stubs alone
    key = f"fields.{requirement.field}"
    match requirement:
        case OneOf(values=values):
            return edge.FieldCondition(key, match=edge.MatchAny(list(values)))
        case Within(ranges=ranges):
            return edge.Filter(
                should=[edge.FieldCondition(key, range=edge.RangeFloat(gte=low, lte=high)) for low, high in ranges]
            )
        case Exists(present=True):
            return edge.Filter(must_not=[edge.IsEmptyCondition(key)])
        case Exists():
            return edge.IsEmptyCondition(key)
