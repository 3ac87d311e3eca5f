"""Pools the unjudged documents of several rankings (Sparck Jones and van Rijsbergen 1975); makes one grade of several.

A pool holds no systems and ranks, so that no judge knows who returned a document. Pure.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.metrics.quality import Grades, Rankings

RULE = "the grade that most judges gave; of grades that equally many gave, the lowest"


@dataclass(frozen=True, slots=True, order=True)
class PooledPair:
    """A query and a document, by their ids."""

    query: str
    document: str


JudgesGrades = Mapping[str, Mapping[PooledPair, int]]  # judge → pair → grade


@dataclass(frozen=True, slots=True)
class PairGrades:
    """The grades of one pair by judge, at least one."""

    pair: PooledPair
    by_judge: Mapping[str, int]

    @property
    def majority(self) -> int:
        """The grade by RULE."""
        return self._most_given[0]

    @property
    def tied(self) -> bool:
        """Whether equally many judges gave another grade."""
        return len(self._most_given) > 1

    @property
    def _most_given(self) -> list[int]:
        counts = Counter(self.by_judge.values())
        return sorted(grade for grade, count in counts.items() if count == max(counts.values()))


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
        documents = {document for ranking in rankings for document in ranking.get(query, ())[:top]}
        unjudged = documents - judged.get(query, {}).keys()
        drawn += [PooledPair(query, document) for document in _shuffled(unjudged, dice)]
    return tuple(drawn)


def graded_pairs(judges: JudgesGrades) -> list[PairGrades]:
    """Returns every pair that any judge has graded, in ascending order."""
    by_pair: dict[PooledPair, dict[str, int]] = {}
    for judge, grades in judges.items():
        for pair, grade in grades.items():
            by_pair.setdefault(pair, {})[judge] = grade
    return [PairGrades(pair, by_pair[pair]) for pair in sorted(by_pair)]


def _shuffled(names: Sequence[str] | set[str], dice: random.Random) -> list[str]:
    listed = sorted(names)
    dice.shuffle(listed)
    return listed
