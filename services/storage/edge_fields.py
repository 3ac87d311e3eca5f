"""Translates metadata fields and filters for Qdrant Edge, for every engine built on it. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import qdrant_edge as edge

from services.contracts.collections import FieldKind
from services.storage.fields import AllOf, AnyOf, Exists, NoneOf, OneOf, Requirement, Within
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
        [edge.HasIdCondition({point_id(identity) for identity in exclude_ids})] if exclude_ids else []
    )
    return edge.Filter(must=[condition(requirement) for requirement in requirements], must_not=excluded)


def ids_filter(ids: Iterable[str]) -> edge.Filter:
    """Returns the filter for the documents of these ids."""
    return edge.Filter(must=[edge.HasIdCondition({point_id(identity) for identity in ids})])


def condition(requirement: Requirement) -> "edge.ConditionType":  # a name of the stubs alone
    """Returns the condition that the documents meet that meet a requirement."""
    match requirement:
        case OneOf(field, values):
            return edge.FieldCondition(_key(field), match=edge.MatchAny(list(values)))
        case Within(field, ranges):
            within = [edge.RangeFloat(**bounds) for bounds in ranges]
            return edge.Filter(should=[edge.FieldCondition(_key(field), range=bounds) for bounds in within])
        case Exists(field, present=True):
            return edge.Filter(must_not=[edge.IsEmptyCondition(_key(field))])
        case Exists(field):
            return edge.IsEmptyCondition(_key(field))
        case AllOf(parts):
            return edge.Filter(must=[condition(part) for part in parts])
        case AnyOf(parts):
            return edge.Filter(should=[condition(part) for part in parts])
        case NoneOf(part):
            return edge.Filter(must_not=[condition(part)])


def _key(field: str) -> str:
    return f"fields.{field}"
