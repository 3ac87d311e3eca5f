"""Says where a hit of one list stands in another. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Movement:
    """The difference between two lists for one hit: a sign for the eye, and words that say the same."""

    kind: Literal["up", "down", "same", "only"]
    sign: str
    words: str


def movement(document: str, rank: int, others: Mapping[str, int], other: str) -> Movement:
    """Compares a hit's rank with those of the list `other` (`left`, `right`), by document id. Ranks begin at 1."""
    there = others.get(document)
    if there is None:
        shown = f"the {len(others)} hits" if len(others) != 1 else "the one hit"
        return Movement("only", "only here", f"not among {shown} on the {other}")
    places = abs(there - rank)
    if not places:
        return Movement("same", "=", f"same place as on the {other}")
    way, sign = ("higher", "▲") if rank < there else ("lower", "▼")
    amount = "1 place" if places == 1 else f"{places} places"
    return Movement("up" if rank < there else "down", f"{sign}{places}", f"{amount} {way} than on the {other}")
