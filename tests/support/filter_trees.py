"""Draws trees of filters and documents to filter, and decides by brute force which documents pass."""

import math
import operator
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from services.contracts.collections import CollectionDeclaration
from services.contracts.documents import MetadataValue
from services.contracts.filters import Condition, Filter, Node, Operand

FILTERED = CollectionDeclaration(metadata={"topic": "keyword", "year": "number", "day": "date"})
# How many trees a suite draws: 2,000 were tried of every engine once; each takes a few milliseconds.
TREES = int(os.environ.get("FILTER_TREES", "200"))
Metadata = Mapping[str, MetadataValue]
_TOPICS = ("brakes", "wheels", "Wheels", "two words", "")
# With neighbours: in the last bit, which no engine tells apart, and in the fifteenth digit, which all do.
YEARS = (
    -1.5, math.nextafter(-1.5, 0), -1.50000000000001, -5e-324, -0.0, 0, 3, math.nextafter(3, math.inf),
    2019, 2019.0000000000002, 2019.00000000001, 2020.25, 2020.2499999999998, 0.3, 0.1 + 0.2, 1e300, sys.float_info.max,
)  # fmt: skip
_DAYS = ("1969-12-31", "2024-05-30", "2024-05-31", "2024-06-01")
_VALUES: Mapping[str, tuple[Operand, ...]] = {"topic": _TOPICS, "year": YEARS, "day": _DAYS}
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}


def drawn_metadata(seed: int, count: int) -> dict[str, dict[str, MetadataValue]]:
    """Returns `count` documents' metadata by id; a field has no value, one, or several."""
    draw = random.Random(seed)
    found: dict[str, dict[str, MetadataValue]] = {}
    for place in range(count):
        metadata: dict[str, MetadataValue] = {}
        for field, values in _VALUES.items():
            match draw.randrange(4):
                case 0:
                    continue
                case 1 if field != "year":  # a list holds texts
                    metadata[field] = tuple(str(one) for one in draw.sample(values, draw.randrange(3)))
                case _:
                    metadata[field] = draw.choice(values)
        found[f"d{place:03}"] = metadata
    return found


def close_numbers() -> list[float]:
    """Returns numbers that people have, each with its neighbours: of doubles, and of 15 significant digits."""
    found: set[float] = set()
    for number in (-1e15 - 0.5, -2019.0, 1e-300, 11 / 3, 0.1 + 0.2, 2019.0, 19.99 * 3, 1.79e15 + 1):
        found |= {math.nextafter(number, -math.inf), number, math.nextafter(number, math.inf)}
        found |= {float(f"{number * (1 + part):.15g}") for part in (-1e-14, 1e-14)}
    return sorted(found)


def kept(number: float) -> float:
    """Returns a number as engines compare it: whole, or by 15 significant digits."""
    whole = float(number).is_integer() or abs(number) >= 1e15
    return (round(number) if whole else float(f"{number:.15g}")) if abs(number) < 2**63 else number


def compared(numbers: Sequence[float]) -> list[tuple[Condition, list[float]]]:
    """Returns conditions on the year that compare with each number, and which numbers meet them."""
    return [
        (Condition(field="year", op=op, value=one), [other for other in numbers if compare(kept(other), kept(one))])
        for one in numbers
        for op, compare in (("eq", operator.eq), *_ORDERS.items())
    ]


def drawn_filters(seed: int, count: int) -> list[Filter]:
    """Returns `count` trees, at most four deep."""
    draw = random.Random(seed)
    return [_filter(draw, 4) for _ in range(count)]


def passes(node: Node, metadata: Metadata) -> bool:
    """Returns whether a document meets a tree over `FILTERED`."""
    match node:
        case Condition():
            return _meets(node, metadata.get(node.field))
        case Filter(not_=Condition() | Filter() as part):
            return not passes(part, metadata)
        case Filter(any=tuple(parts)):
            return any(passes(part, metadata) for part in parts)
    return all(passes(part, metadata) for part in node.all or ())


def _meets(condition: Condition, value: MetadataValue | None) -> bool:
    values = value if isinstance(value, tuple) else () if value is None else (value,)
    if condition.op == "exists":
        return bool(values) is (condition.value is not False)
    operands = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    asked, held = ([one if isinstance(one, str) else kept(one or 0) for one in some] for some in (operands, values))
    if condition.op in ("eq", "in"):
        return any(one in asked for one in held)
    compare = _ORDERS[condition.op]
    # Days of one form are in the order of their texts.
    return any(compare(one, asked[0]) for one in held)


def _filter(draw: random.Random, depth: int) -> Filter:
    def part() -> Node:
        return _condition(draw) if depth == 1 or draw.random() < 0.5 else _filter(draw, depth - 1)

    match draw.randrange(3):
        case 0:
            return Filter(not_=part())
        case 1:
            return Filter(any=tuple(part() for _ in range(draw.randint(1, 2))))
    return Filter(all=tuple(part() for _ in range(draw.randint(1, 2))))


def _condition(draw: random.Random) -> Condition:
    field = draw.choice(tuple(_VALUES))
    values = _VALUES[field]
    ops = ("eq", "in", "exists") if field == "topic" else ("eq", "in", "exists", *_ORDERS)
    match draw.choice(ops):
        case "in":
            return Condition(field=field, op="in", value=tuple(draw.sample(values, draw.randint(1, 3))))
        case "exists":
            return Condition(field=field, op="exists", value=draw.choice((None, True, False)))
        case op:
            return Condition(field=field, op=op, value=draw.choice(values))
