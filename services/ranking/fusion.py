"""Fuses rankings: reciprocal ranks, weighted sums, the mix with a re-ranker's scores. Pure: no I/O, no clock.

Ranks begin at 1 and follow from the scores; a duplicate counts by its best rank.
Every ranking returned is in the same total order: score descending, then id ascending.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import gt
from typing import Literal, NamedTuple

from services.contracts.scored import Ranking, Scored, in_rank_order, paired

Normalisation = Literal["min-max", "z-score", "theoretical-min"]


class Leg(NamedTuple):
    """One input of a fusion. `floor` is the least score that its kind can give (BM25 0, cosine -1), if any."""

    ranking: Ranking
    weight: float = 1.0
    floor: float | None = None


def ranked(scored: Iterable[Scored]) -> Ranking:
    """Sorts by score descending, then id ascending. Keeps only the best place of a duplicate id."""
    scored = tuple(scored)
    if _in_order(scored):
        return scored
    best: dict[str, Scored] = {}
    for one in in_rank_order(scored):
        best.setdefault(one.id, one)
    return tuple(best.values())


def _in_order(scored: Ranking) -> bool:
    """Returns whether these are a ranking, without ties. The answers of backends are: sorting them takes longer."""
    scores = [score for _, score in scored]
    return all(map(gt, scores, islice(scores, 1, None))) and len({one for one, _ in scored}) == len(scored)


def reciprocal_rank(legs: Sequence[Leg], k: int = 60) -> Ranking:
    """Sums `weight / (k + rank)`, ranks from 1 (Cormack et al. 2009). A document missing from a leg contributes 0."""
    return _summed(
        {one.id: leg.weight / (k + rank) for rank, one in enumerate(ranked(leg.ranking), start=1)} for leg in legs
    )


def weighted(legs: Sequence[Leg], normalisation: Normalisation) -> Ranking:
    """Sums `weight * normalised score`.

    A document missing from a leg contributes 0, under z-score the leg's least value. An empty leg contributes 0.
    """
    documents = {one.id for leg in legs for one in leg.ranking}
    parts: list[dict[str, float]] = []
    for leg in legs:
        values = _normalised(leg, normalisation)
        if not values:
            continue
        absent = min(values.values()) if normalisation == "z-score" else 0.0
        parts.append({document: leg.weight * values.get(document, absent) for document in documents})
    return _summed(parts)


def mixed(first: Ranking, reranked: Mapping[str, float], weight: float) -> Ranking:
    """Sorts by `weight * z(re-ranker) + (1 - weight) * z(first stage)` over the documents that the re-ranker scored.

    The others follow in their order, with lower scores.
    """
    seen = [one for one in first if one.id in reranked]
    if not seen:
        return first
    rerank_z = _z_scores([reranked[one.id] for one in seen])
    first_z = _z_scores([one.score for one in seen])
    head = ranked(
        Scored(one.id, weight * high + (1 - weight) * low)
        for one, high, low in zip(seen, rerank_z, first_z, strict=True)
    )
    # Only the order of the rest matters: one step each below the lowest z keeps it under any sort by score.
    lowest = head[-1].score
    rest = (one for one in first if one.id not in reranked)
    return head + tuple(Scored(one.id, lowest - place) for place, one in enumerate(rest, start=1))


def continued(head: Ranking, below: Ranking) -> Ranking:
    """Appends `below` in its order, each document with its own score or, where that is too high, the next lower float.

    Nothing of `head` changes, and the whole is in the total order of every ranking. No document may be in both.
    """
    whole = list(head)
    for one in below:
        if whole and (-one.score, one.id) <= (-whole[-1].score, whole[-1].id):
            one = Scored(one.id, math.nextafter(whole[-1].score, -math.inf))
        whole.append(one)
    return tuple(whole)


def _summed(parts: Iterable[Mapping[str, float]]) -> Ranking:
    terms: dict[str, list[float]] = {}
    for part in parts:
        for document, value in part.items():
            terms.setdefault(document, []).append(value)
    # fsum is exact, so the order of the legs cannot change the last bit of a score, which could break a tie.
    return tuple(in_rank_order(paired((document, math.fsum(values)) for document, values in terms.items())))


def _normalised(leg: Leg, normalisation: Normalisation) -> dict[str, float]:
    ranking = ranked(leg.ranking)
    if not ranking:
        return {}
    scores = [one.score for one in ranking]
    match normalisation:
        case "min-max":
            values = _from_floor(scores, min(scores))
        case "z-score":
            values = _z_scores(scores)
        case "theoretical-min":
            if leg.floor is None:
                raise ValueError("theoretical-min needs the least score that each leg can give")
            values = _from_floor(scores, leg.floor)
    return {one.id: value for one, value in zip(ranking, values, strict=True)}


def _from_floor(scores: Sequence[float], floor: float) -> list[float]:
    """Scales scores to 0 at the floor and 1 at the highest; to 1 for all when the two are equal."""
    *scaled, low = _scaled([*scores, floor])
    spread = max(scaled) - low
    if spread <= 0:
        return [1.0] * len(scaled)
    return [max(0.0, (score - low) / spread) for score in scaled]


def _z_scores(scores: Sequence[float]) -> list[float]:
    """Returns population z-scores; 0 for all when the scores are equal."""
    if min(scores) == max(scores):
        return [0.0] * len(scores)  # explicit, because the computed mean of equal floats may differ from them
    scaled = _scaled(scores)
    mean = math.fsum(scaled) / len(scaled)
    deviation = math.sqrt(math.fsum((score - mean) ** 2 for score in scaled) / len(scaled))
    if not deviation:
        return [0.0] * len(scores)
    return [(score - mean) / deviation for score in scaled]


def _scaled(scores: Sequence[float]) -> list[float]:
    """Multiplies scores by one power of two (exact), so that differences and squares neither overflow nor vanish."""
    _, exponent = math.frexp(max(abs(score) for score in scores))
    return [math.ldexp(score, -exponent) for score in scores]
