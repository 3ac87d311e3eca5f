"""Owns a scored document and the order of rankings. Pure Python: an answer has hundreds, and models take longer."""

from collections.abc import Iterable
from functools import partial
from operator import itemgetter
from typing import NamedTuple


class Scored(NamedTuple):
    """A document and its score; higher is better."""

    id: str
    score: float


Ranking = tuple[Scored, ...]

# A NamedTuple's own constructor is a function in Python and takes twice as long.
_scored = partial(tuple.__new__, Scored)


def paired(pairs: Iterable[tuple[str, float]]) -> Ranking:
    """Returns documents with their scores, in this order."""
    return tuple(map(_scored, pairs))


def in_rank_order(scored: Iterable[Scored]) -> list[Scored]:
    """Sorts by score descending, then id ascending."""
    # Two stable sorts by keys in C: one by a key in Python takes twice as long.
    return sorted(sorted(scored, key=itemgetter(0)), key=itemgetter(1), reverse=True)
