"""Fuses rankings: reciprocal ranks, weighted sums, the mix with a re-ranker's scores. Pure: no I/O, no clock.

Ranks begin at 1 and follow from the scores; a duplicate counts by its best rank.
Every ranking returned is in the same total order: score descending, then id ascending.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, repeat
from operator import add, gt, itemgetter, mul
from typing import Literal, NamedTuple

from services.contracts.scored import Ranking, Scored, in_rank_order, paired

Normalisation = Literal["min-max", "z-score", "theoretical-min"]
# Squares of scores with a smaller binary exponent are normal floats: scaling them first would change no bit.
PLAIN_EXPONENT = 400
# They read a scored document in C, a third faster than by its attributes in a loop.
_ID, _SCORE = itemgetter(0), itemgetter(1)


class Leg(NamedTuple):
    """One input of a fusion. `floor` is the least score that its kind can give (BM25 0, cosine -1), if any."""

    ranking: Ranking
    floor: float | None = None


def ranked(scored: Iterable[Scored]) -> Ranking:
    """Sorts by score descending, then id ascending. Keeps only the best place of a duplicate id."""
    scored = tuple(scored)
    if _in_order(scored):
        return scored
    best: dict[str, Scored] = {}
    for hit in in_rank_order(scored):
        best.setdefault(hit.id, hit)
    return tuple(best.values())


def _in_order(scored: Ranking) -> bool:
    """Returns whether these are a ranking, without ties. The answers of backends are: sorting them takes longer."""
    scores = list(map(_SCORE, scored))
    return all(map(gt, scores, islice(scores, 1, None))) and len(set(map(_ID, scored))) == len(scored)


class AlignedLegs:
    """Legs whose documents stand side by side, in ascending order of id: what all fusions of the same legs share.

    Every method takes a weight for each leg.
    """

    def __init__(self, legs: Iterable[Leg]) -> None:
        # An empty leg contributes nothing.
        self._legs = [Leg(ranked(leg.ranking), leg.floor) for leg in legs]
        self._own_ids = [list(map(_ID, leg.ranking)) for leg in self._legs]
        self._ids = sorted(set().union(*self._own_ids))
        self._ranks: list[list[float]] | None = None
        self._values: dict[Normalisation, list[list[float]]] = {}

    def reciprocal_rank(self, weights: Sequence[float], k: int = 60, top: int | None = None) -> Ranking:
        """Sums `weight / (k + rank)`, ranks from 1 (Cormack et al. 2009). A missing document contributes 0.

        Returns the whole ranking, or its first `top`.
        """
        if self._ranks is None:
            # So far down that a missing document contributes exactly 0.
            self._ranks = [self._column(ids, range(1, len(ids) + 1), math.inf) for ids in self._own_ids]
        parts = [[weight / (k + rank) for rank in ranks] for weight, ranks in zip(weights, self._ranks, strict=True)]
        return self._summed(parts, top)

    def weighted(self, weights: Sequence[float], normalisation: Normalisation) -> Ranking:
        """Sums `weight * normalised score`. A missing document contributes 0, under z-score the leg's least value."""
        if normalisation not in self._values:
            values = [_normalised(leg, normalisation) for leg in self._legs]
            absent = [min(leg_values, default=0.0) if normalisation == "z-score" else 0.0 for leg_values in values]
            self._values[normalisation] = list(map(self._column, self._own_ids, values, absent))
        columns = zip(weights, self._values[normalisation], strict=True)
        return self._summed([[weight * value for value in column] for weight, column in columns])

    def _column(self, own_ids: Sequence[str], values: Sequence[float], absent: float) -> list[float]:
        """Returns the values of a leg's documents by document of all legs."""
        known = dict(zip(own_ids, values, strict=True))
        return list(map(known.get, self._ids, repeat(absent)))

    def _summed(self, parts: list[list[float]], top: int | None = None) -> Ranking:
        # fsum is exact, so the order of the legs cannot change the last bit of a score, which could break a tie. The
        # sum of two floats is rounded once anyway.
        scores = list(map(add, *parts)) if len(parts) == 2 else list(map(math.fsum, zip(*parts, strict=True)))
        return _best(self._ids, scores, top)


class Mixture:
    """A ranking and a re-ranker's scores of some of its documents, to be mixed by one weight or by many."""

    def __init__(self, first: Ranking, reranked: Mapping[str, float]) -> None:
        seen = sorted((hit for hit in first if hit.id in reranked), key=_ID)
        self._ids = list(map(_ID, seen))
        self._first_z = _z_scores(list(map(_SCORE, seen)))
        self._reranked_z = _z_scores([reranked[document] for document in self._ids])
        self._rest = [hit.id for hit in first if hit.id not in reranked]
        self._unmixed = first

    def at(self, weight: float) -> Ranking:
        """Sorts by `weight * z(re-ranker) + (1 - weight) * z(first stage)` over the documents that were scored.

        The others follow in their order, with lower scores.
        """
        if not self._ids:
            return self._unmixed
        scores = [weight * high + (1 - weight) * low for high, low in zip(self._reranked_z, self._first_z, strict=True)]
        head = _best(self._ids, scores)
        # Only the order of the rest matters: one step each below the lowest z keeps it under any sort by score.
        lowest = head[-1].score
        return head + paired((document, lowest - place) for place, document in enumerate(self._rest, start=1))


def continued(head: Ranking, below: Ranking) -> Ranking:
    """Appends `below` in its order, each document with its own score or, where that is too high, the next lower float.

    Nothing of `head` changes, and the whole is in the total order of every ranking. No document may be in both.
    """
    whole = list(head)
    for hit in below:
        if whole and (-hit.score, hit.id) <= (-whole[-1].score, whole[-1].id):
            hit = Scored(hit.id, math.nextafter(whole[-1].score, -math.inf))
        whole.append(hit)
    return tuple(whole)


def _best(ascending: Sequence[str], scores: Sequence[float], top: int | None = None) -> Ranking:
    """Sorts documents, given in ascending order of id, by score descending; equal scores stay in that order."""
    return paired(sorted(zip(ascending, scores, strict=True), key=_SCORE, reverse=True)[:top])


def _normalised(leg: Leg, normalisation: Normalisation) -> Sequence[float]:
    """Returns the normalised scores of a leg in its order."""
    scores = list(map(_SCORE, leg.ranking))
    if not scores:
        return []
    match normalisation:
        case "min-max":
            return _from_floor(scores, min(scores))
        case "z-score":
            return _z_scores(scores)
        case "theoretical-min":
            if leg.floor is None:
                raise ValueError("theoretical-min needs the least score that each leg can give")
            return _from_floor(scores, leg.floor)


def _from_floor(scores: Sequence[float], floor: float) -> list[float]:
    """Scales scores to 0 at the floor and 1 at the highest; to 1 for all when the two are equal."""
    *scaled, low = _scaled([*scores, floor])
    spread = max(scaled) - low
    if spread <= 0:
        return [1.0] * len(scaled)
    return [max(0.0, (score - low) / spread) for score in scaled]


def _z_scores(scores: Sequence[float]) -> Sequence[float]:
    """Returns population z-scores; 0 for all when the scores are equal."""
    if not scores or min(scores) == max(scores):
        return [0.0] * len(scores)  # explicit, because the computed mean of equal floats may differ from them
    scaled = _scaled(scores)
    mean = math.fsum(scaled) / len(scaled)
    centred = [score - mean for score in scaled]
    deviation = math.sqrt(math.fsum(map(mul, centred, centred)) / len(centred))
    if not deviation:
        return [0.0] * len(scores)
    return [score / deviation for score in centred]


def _scaled(scores: Sequence[float]) -> Sequence[float]:
    """Multiplies scores by one power of two (exact), so that differences and squares neither overflow nor vanish."""
    _, exponent = math.frexp(max(max(scores), -min(scores)))
    if abs(exponent) < PLAIN_EXPONENT:
        return scores
    return [math.ldexp(score, -exponent) for score in scores]
