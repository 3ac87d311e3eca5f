"""Pools the unjudged documents of several rankings (Sparck Jones and van Rijsbergen 1975). Pure.

A pool holds no systems and ranks, so that no judge knows who returned a document.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.metrics.quality import Grades, Rankings


@dataclass(frozen=True, slots=True, order=True)
class PooledPair:
    """A query and a document, by their ids."""

    query: str
    document: str


def pooled_pairs(
    rankings: Sequence[Rankings], judged: Grades, queries: Sequence[str], top: int, seed: int
) -> tuple[PooledPair, ...]:
    """Returns each pair of a query and one of the `top` documents of any ranking that has no judgment, once.

    The order of the queries, and within a query that of its documents, is drawn with the seed and does not depend on
    the order of the rankings. The documents of a query stay together: a judge reads one topic at a time, as at TREC.
    """
    dice = random.Random(seed)
    drawn = []
    for query in _shuffled(queries, dice):
        found = {document for ranking in rankings for document in ranking.get(query, ())[:top]}
        open_ones = found - judged.get(query, {}).keys()
        drawn += [PooledPair(query, document) for document in _shuffled(open_ones, dice)]
    return tuple(drawn)


def pairs_by_query(pairs: Sequence[PooledPair]) -> Mapping[str, Sequence[str]]:
    """Returns the documents of each query, in the order of the pairs."""
    found: dict[str, list[str]] = {}
    for pair in pairs:
        found.setdefault(pair.query, []).append(pair.document)
    return found


def _shuffled(names: Sequence[str] | set[str], dice: random.Random) -> list[str]:
    listed = sorted(names)
    dice.shuffle(listed)
    return listed
