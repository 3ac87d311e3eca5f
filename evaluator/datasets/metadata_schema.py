"""Filters a corpus's metadata to what the wire carries, and infers a schema from the values."""

import math
import re
from collections.abc import Mapping

from services.contracts.collections import FieldKind
from services.contracts.documents import MetadataValue

MOST_FIELDS = 256  # that a collection may declare (services.contracts.collections)
MOST_NAMED = 32

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?(Z|[+-]\d{2}:\d{2})?)?")


def sendable_metadata(raw: object) -> tuple[dict[str, MetadataValue], int]:
    """Returns the entries that the wire carries, and the number of others. A null counts as a missing value."""
    if raw is None:
        return {}, 0
    if not isinstance(raw, dict):
        return {}, 1
    kept: dict[str, MetadataValue] = {}
    dropped = 0
    for name, value in raw.items():
        if value is None or value == []:
            continue
        if not _FIELD.fullmatch(name):
            dropped += 1
        elif isinstance(value, list) and all(isinstance(item, str) for item in value):
            kept[name] = tuple(value)
        elif isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
            kept[name] = value
        else:
            dropped += 1
    return kept, dropped


class SchemaInference:
    """Collects the kinds of each field's values, of at most MOST_FIELDS fields: identifiers may stand as names."""

    def __init__(self) -> None:
        self._kinds: dict[str, set[FieldKind]] = {}
        self._beyond: set[str] = set()

    def add(self, metadata: Mapping[str, MetadataValue]) -> None:
        """Adds the metadata of one document."""
        for name, value in metadata.items():
            if name in self._kinds or len(self._kinds) < MOST_FIELDS:
                self._kinds.setdefault(name, set()).add(_kind(value))
            elif len(self._beyond) < MOST_NAMED:
                self._beyond.add(name)

    def result(self) -> tuple[dict[str, FieldKind], tuple[str, ...]]:
        """Returns the kind of every field whose values agree on one, and the names of the others.

        Of fields above MOST_FIELDS, the first MOST_NAMED are named.
        """
        schema: dict[str, FieldKind] = {}
        mixed = list(self._beyond)
        for name, kinds in sorted(self._kinds.items()):
            if kinds <= {"keyword", "date"}:  # both are strings
                schema[name] = "keyword" if "keyword" in kinds else "date"
            elif kinds == {"number"}:
                schema[name] = "number"
            else:
                mixed.append(name)
        return schema, tuple(sorted(mixed))


def _kind(value: MetadataValue) -> FieldKind:
    match value:
        case bool():
            return "keyword"
        case int() | float():
            return "number"
        case str() if _DATE.fullmatch(value):
            return "date"
        case _:
            return "keyword"
