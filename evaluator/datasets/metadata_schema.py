"""Filters a corpus's metadata to what the wire carries, and infers a schema from the values."""

import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Container, Mapping
from contextlib import suppress

from services.contracts.collections import FieldKind
from services.contracts.documents import MetadataValue
from services.contracts.filters import Operand, date_span_of, keyword_of, number_of

MOST_FIELDS = 256  # that a collection may declare (services.contracts.collections)
MOST_NAMED = 32

_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,39})(?:\.([0-9]{1,20}))?")


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
        self._kinds: dict[str, set[FieldKind | None]] = {}
        self._beyond: set[str] = set()
        # Of numbers that are written as text: the decimals, and whether JSON writes them so (1.10 becomes 1.1).
        self._forms: defaultdict[str, set[tuple[int, bool]]] = defaultdict(set)

    def add(self, metadata: Mapping[str, MetadataValue], written: Container[str] = ()) -> None:
        """Adds the metadata of one document. Texts of fields in `written`, such as cells of a table, may be numbers."""
        for name, value in metadata.items():
            if name not in self._kinds and len(self._kinds) == MOST_FIELDS:
                if len(self._beyond) < MOST_NAMED:
                    self._beyond.add(name)
                continue
            kinds = self._kinds.setdefault(name, set())
            if name in written and isinstance(value, str) and (number_text := _NUMBER.fullmatch(value)):
                number, decimals = json.loads(value), len(number_text[1] or "")
                if f"{number:.{decimals}f}" == value:  # a double holds every digit
                    kinds.add("number")
                    self._forms[name].add((decimals, json.dumps(number) == value))
                    continue
            kinds.update(map(_kind, value if isinstance(value, tuple) else (value,)))

    def numbers(self) -> frozenset[str]:
        """Returns the fields whose texts are to become numbers: all are, in one form. See `result` for the others."""
        return frozenset(name for name in self._forms if self._kind_of(name) == "number")

    def result(self) -> tuple[dict[str, FieldKind], tuple[str, ...], tuple[str, ...]]:
        """Returns the kind of each field to declare, and two lists of names.

        Mixed ones are keywords of which some values are numbers or dates. Undeclared ones have a text that is too long
        for a keyword, or are above MOST_FIELDS, the first MOST_NAMED of these.
        """
        kinds = {name: self._kind_of(name) for name, every in sorted(self._kinds.items()) if every}
        schema = {name: kind for name, kind in kinds.items() if kind is not None}
        mixed = tuple(name for name, kind in schema.items() if self._kinds[name] != {kind})
        return schema, mixed, tuple(sorted(self._beyond | (kinds.keys() - schema.keys())))

    def _kind_of(self, name: str) -> FieldKind | None:
        kinds, forms = self._kinds[name], self._forms.get(name, ())
        if None in kinds:
            return None
        in_one_form = all(exact for _, exact in forms) or len({decimals for decimals, _ in forms}) == 1
        return next(iter(kinds)) if len(kinds) == 1 and in_one_form else "keyword"


def _kind(value: Operand) -> FieldKind | None:
    """Returns the kind that a service takes a value as, the narrowest one; None for a text too long for a keyword."""
    converted: tuple[tuple[FieldKind, Callable[[Operand], object]], ...] = (
        ("number", number_of), ("date", date_span_of), ("keyword", keyword_of),
    )  # fmt: skip
    for kind, convert in converted:
        with suppress(ValueError):
            convert(value)
            return kind
    return None
