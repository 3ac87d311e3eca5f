"""Checks fusion on hand-worked and degenerate cases, and against ranx."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.scored import Ranking, Scored
from services.ranking.fusion import AlignedLegs, Leg, Mixture, Normalisation, ranked

NORMALISATIONS: tuple[Normalisation, ...] = ("min-max", "z-score", "theoretical-min")
BM25 = (Scored("a", 12.0), Scored("b", 6.0), Scored("c", 3.0))
DENSE = (Scored("b", 0.8), Scored("d", 0.5), Scored("a", 0.2))


def ids(ranking: Ranking) -> list[str]:
    return [one.id for one in ranking]


def scores(ranking: Ranking) -> dict[str, float]:
    return {one.id: one.score for one in ranking}


def reciprocal_rank(*rankings: Ranking, k: int = 60, weights: Sequence[float] | None = None) -> Ranking:
    return AlignedLegs(map(Leg, rankings)).reciprocal_rank(weights or [1.0] * len(rankings), k)


def weighted(
    *rankings: Ranking,
    by: Normalisation,
    weights: Sequence[float] | None = None,
    floors: Sequence[float | None] = (0.0, -1.0),
) -> Ranking:
    # As many floors as there are legs, in turn.
    legs = [Leg(ranking, floors[place % len(floors)]) for place, ranking in enumerate(rankings)]
    return AlignedLegs(legs).weighted(weights or [1 / len(rankings)] * len(rankings), by)


def mixed(first: Ranking, reranked: Mapping[str, float], weight: float) -> Ranking:
    return Mixture(first, reranked).at(weight)


def test_reciprocal_ranks_start_at_one() -> None:
    fused = reciprocal_rank(BM25, DENSE, k=60)
    assert scores(fused) == pytest.approx({"b": 1 / 62 + 1 / 61, "a": 1 / 61 + 1 / 63, "d": 1 / 62, "c": 1 / 63})
    assert ids(fused) == ["b", "a", "d", "c"]


def test_reciprocal_ranks_are_ranks_by_score_whatever_the_order_given() -> None:
    assert reciprocal_rank(BM25[::-1], DENSE) == reciprocal_rank(BM25, DENSE)


def test_min_max_gives_the_last_document_of_a_leg_0_like_a_missing_one() -> None:
    fused = weighted(BM25, DENSE, by="min-max")
    assert scores(fused) == pytest.approx({"a": (1 + 0) / 2, "b": (1 / 3 + 1) / 2, "c": 0.0, "d": (0.3 / 0.6) / 2})


def test_theoretical_min_starts_at_the_least_score_of_the_family() -> None:
    fused = weighted(BM25, DENSE, by="theoretical-min")
    # BM25 from 0 to 12; cosine from -1 to 0.8, so 1.2 / 1.8 for 0.2 and 1.5 / 1.8 for 0.5.
    assert scores(fused) == pytest.approx(
        {"a": (12 / 12 + 1.2 / 1.8) / 2, "b": (6 / 12 + 1.8 / 1.8) / 2, "c": (3 / 12) / 2, "d": (1.5 / 1.8) / 2}
    )
    assert ids(fused) == ["a", "b", "d", "c"]


def test_z_scores_are_of_the_population() -> None:
    fused = weighted((Scored("a", 1.0), Scored("b", 3.0)), by="z-score")
    assert scores(fused) == pytest.approx({"b": 1.0, "a": -1.0})


def test_a_missing_document_gets_the_least_z_score_of_the_leg_not_its_mean() -> None:
    fused = weighted((Scored("a", 3.0), Scored("b", 1.0)), (Scored("a", 5.0), Scored("c", 4.0)), by="z-score")
    assert scores(fused) == pytest.approx({"a": 1.0, "b": -1.0, "c": -1.0})


@pytest.mark.parametrize("ranking", [(Scored("a", 3.0),), (Scored("a", -2.0), Scored("b", -2.0))])
def test_equal_scores_are_all_one_under_min_max(ranking: Ranking) -> None:
    assert set(scores(weighted(ranking, by="min-max")).values()) == {1.0}


def test_theoretical_min_refuses_a_leg_without_one() -> None:
    with pytest.raises(ValueError, match="least score"):
        weighted(BM25, by="theoretical-min", floors=[None])


def test_ties_are_in_ascending_order_of_id() -> None:
    fused = reciprocal_rank((Scored("b", 2.0), Scored("a", 1.0)), (Scored("a", 2.0), Scored("b", 1.0)))
    assert ids(fused) == ["a", "b"]


def test_a_duplicate_id_counts_by_its_best_place() -> None:
    twice = (Scored("a", 3.0), Scored("b", 2.0), Scored("a", 1.0))
    assert ranked(twice) == twice[:2]
    assert reciprocal_rank(twice) == reciprocal_rank(twice[:2])


def test_the_mix_weighs_z_scores_of_both_over_the_candidates_seen() -> None:
    first = (Scored("a", 3.0), Scored("b", 1.0), Scored("c", 0.5))
    answer = mixed(first, {"a": -4.0, "b": 6.0}, 0.75)
    assert answer[:2] == (Scored("b", 0.5), Scored("a", -0.5))


def test_documents_not_reranked_follow_in_their_order_at_lower_scores() -> None:
    first = tuple(Scored(name, 10.0 - place) for place, name in enumerate("abcdef"))
    answer = mixed(first, {"a": 1.0, "c": 9.0}, 1.0)
    assert ids(answer) == ["c", "a", "b", "d", "e", "f"]
    assert all(high.score > low.score for high, low in pairwise(answer))


def test_a_weight_of_one_is_the_order_of_the_reranker_and_of_zero_that_of_the_first_stage() -> None:
    reranked = {"a": 0.1, "b": 0.2, "c": 0.9}
    assert ids(mixed(BM25, reranked, 1.0)) == ["c", "b", "a"]
    assert ids(mixed(BM25, reranked, 0.0)) == ["a", "b", "c"]


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.sampled_from([f"d{number:02}" for number in range(12)])


def runs(values: st.SearchStrategy[float] = finite, least: int = 0) -> st.SearchStrategy[Ranking]:
    return st.dictionaries(names, values, min_size=least, max_size=12).map(
        lambda found: ranked(Scored(name, score) for name, score in found.items())
    )


@given(st.lists(runs(), min_size=2, max_size=3), st.randoms(use_true_random=False), st.sampled_from(NORMALISATIONS))
def test_fusion_ignores_the_order_of_its_inputs(rankings: list[Ranking], shuffle: Random, by: Normalisation) -> None:
    weights = [0.5 + place for place in range(len(rankings))]
    order = shuffle.sample(range(len(rankings)), len(rankings))
    other, others = [rankings[at] for at in order], [weights[at] for at in order]
    assert weighted(*rankings, by=by, weights=weights, floors=[-1.0]) == weighted(
        *other, by=by, weights=others, floors=[-1.0]
    )
    assert reciprocal_rank(*rankings, weights=weights) == reciprocal_rank(*other, weights=others)


@given(st.lists(runs(), min_size=1, max_size=3), st.sampled_from(NORMALISATIONS))
def test_every_fusion_is_finite_in_total_order_and_complete(rankings: list[Ranking], by: Normalisation) -> None:
    present = {one.id for ranking in rankings for one in ranking}
    for fused in (weighted(*rankings, by=by, floors=[0.0]), reciprocal_rank(*rankings)):
        assert {one.id for one in fused} == present
        assert all(math.isfinite(one.score) for one in fused)
        assert list(fused) == sorted(fused, key=lambda one: (-one.score, one.id))


@given(runs(least=1), st.dictionaries(names, finite), st.floats(0, 1))
def test_every_mix_is_finite_non_increasing_and_complete(
    first: Ranking, reranked: dict[str, float], weight: float
) -> None:
    answer = mixed(first, reranked, weight)
    assert sorted(ids(answer)) == sorted(ids(first))
    assert all(math.isfinite(one.score) for one in answer)
    assert all(high.score >= low.score for high, low in pairwise(answer))


# What ranx makes of random rankings without equal scores: tests/golden/make_ranx_fusions.py.
GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "ranx_fusions.json"


def of_ranx(norm: str | None) -> Iterator[tuple[list[Ranking], dict[str, Any], dict[str, float]]]:
    """Yields the rankings, the parameters and the fused scores of each case with this normalisation."""
    for case in json.loads(GOLDEN.read_text(encoding="utf-8")):
        if case["norm"] == norm:
            legs = [ranked(Scored(name, score) for name, score in leg.items()) for leg in case["legs"]]
            yield legs, case["params"], case["fused"]


def test_reciprocal_rank_equals_ranx() -> None:
    for rankings, params, fused in of_ranx(None):
        assert scores(reciprocal_rank(*rankings, **params)) == pytest.approx(fused, abs=1e-12)


# ranx gives a missing document the z-score 0: there every leg has every document.
@pytest.mark.parametrize("by", ["min-max", "z-score"])
def test_normalised_sums_equal_those_of_ranx(by: Normalisation) -> None:
    for rankings, params, fused in of_ranx(by):
        assert scores(weighted(*rankings, by=by, **params)) == pytest.approx(fused, abs=1e-9)
