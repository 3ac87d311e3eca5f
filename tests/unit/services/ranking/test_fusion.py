"""Checks fusion on hand-worked and degenerate cases, and against ranx."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from services.contracts.scored import Ranking, Scored
from services.ranking.fusion import AlignedLegs, Leg, Mixture, Normalisation, continued, ranked

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


def test_equal_scores_are_all_zero_under_z_score() -> None:
    tied = (Scored("b", 0.1), Scored("a", 0.1), Scored("c", 0.1))
    fused = weighted(tied, BM25, by="z-score")
    assert weighted(tied, by="z-score") == (Scored("a", 0.0), Scored("b", 0.0), Scored("c", 0.0))
    assert ids(fused) == ids(BM25)


def test_scores_at_the_theoretical_minimum_are_all_one() -> None:
    assert scores(weighted((Scored("a", 0.0), Scored("b", 0.0)), by="theoretical-min")) == {"a": 1, "b": 1}


def test_theoretical_min_refuses_a_leg_without_one() -> None:
    with pytest.raises(ValueError, match="least score"):
        weighted(BM25, by="theoretical-min", floors=[None])


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
def test_an_empty_leg_contributes_nothing(normalisation: Normalisation) -> None:
    assert ids(weighted(BM25, (), by=normalisation)) == ids(BM25)
    assert weighted((), (), by=normalisation) == ()
    assert reciprocal_rank((), ()) == ()


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


def test_equal_reranker_scores_leave_the_order_of_the_first_stage() -> None:
    assert ids(mixed(BM25, dict.fromkeys("abc", 0.3), 0.9)) == ["a", "b", "c"]
    assert mixed(BM25, {}, 0.9) == BM25


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


# ranx runs in a process of its own without its just-in-time compiler: compiling takes 100 s when cold.
RANX = """
import json, sys
from ranx import Run, fuse
from ranx.normalization import min_max_norm, zmuv_norm
norms = {"min-max": min_max_norm, "z-score": zmuv_norm}
for line in sys.stdin:
    asked = json.loads(line)
    runs = [Run({"q": leg}) for leg in asked["legs"]]
    if asked["norm"]:
        runs = [norms[asked["norm"]](run) for run in runs]
    fused = fuse(runs=runs, norm=None, method=asked["method"], params=asked["params"]).to_dict()["q"]
    print(json.dumps({name: float(score) for name, score in fused.items()}), flush=True)
"""
Ranx = Callable[..., dict[str, float]]


@pytest.fixture(scope="session")
def ranx() -> Iterator[Ranx]:
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", RANX],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def fuse(legs: Sequence[Ranking], method: str, norm: str | None, **params: object) -> dict[str, float]:
            asked = {"legs": [scores(leg) for leg in legs], "method": method, "norm": norm, "params": params}
            print(json.dumps(asked), file=process.stdin, flush=True)
            answer: dict[str, float] = json.loads(process.stdout.readline())
            return answer

        yield fuse
        process.stdin.close()


# Whole numbers below 65: scores that differ do so by more than rounding.
coarse = st.integers(1, 64).map(float)
shares = st.lists(st.sampled_from([0.25, 0.5, 1.0, 2.0]), min_size=3, max_size=3)


@settings(max_examples=25, deadline=None)
@given(rankings=st.lists(runs(coarse, least=1), min_size=2, max_size=3))
def test_reciprocal_rank_equals_ranx_apart_from_ties(ranx: Ranx, rankings: list[Ranking]) -> None:
    assume(all(len({one.score for one in ranking}) == len(ranking) for ranking in rankings))
    fused = reciprocal_rank(*rankings)
    assert scores(fused) == pytest.approx(ranx(rankings, "rrf", None, k=60), abs=1e-12)


@settings(max_examples=25, deadline=None)
@given(rankings=st.lists(runs(coarse, least=2), min_size=2, max_size=3), weights=shares)
def test_min_max_equals_ranx_apart_from_legs_of_equal_scores(
    ranx: Ranx, rankings: list[Ranking], weights: list[float]
) -> None:
    assume(all(len({one.score for one in ranking}) > 1 for ranking in rankings))
    given_weights = weights[: len(rankings)]
    fused = weighted(*rankings, by="min-max", weights=given_weights)
    assert scores(fused) == pytest.approx(ranx(rankings, "wsum", "min-max", weights=given_weights), abs=1e-9)


@settings(max_examples=25, deadline=None)
@given(table=st.dictionaries(names, st.tuples(coarse, coarse, coarse), min_size=2, max_size=12), weights=shares)
def test_z_score_equals_ranx_where_every_leg_has_every_document(
    ranx: Ranx, table: dict[str, tuple[float, ...]], weights: list[float]
) -> None:
    rankings = [ranked(Scored(name, row[leg]) for name, row in table.items()) for leg in range(3)]
    fused = weighted(*rankings, by="z-score", weights=weights)
    assert scores(fused) == pytest.approx(ranx(rankings, "wsum", "z-score", weights=weights), abs=1e-9)


def test_what_follows_keeps_scores_that_are_low_enough_and_gets_the_next_lower_number_otherwise() -> None:
    head = (Scored("b", 2.0), Scored("d", 1.0))
    below = (Scored("c", 9.0), Scored("e", 1.0), Scored("f", 0.5), Scored("g", 0.5))
    next_lower = math.nextafter(1.0, 0.0)
    assert continued(head, below) == (
        *head,
        Scored("c", next_lower),
        Scored("e", math.nextafter(next_lower, 0.0)),
        *below[2:],
    )


def test_a_tie_across_the_border_stays_a_tie_where_the_ids_ascend() -> None:
    head, below = (Scored("b", 1.0),), (Scored("c", 1.0), Scored("d", 1.0))
    assert continued(head, below) == head + below
    assert continued((), below) == below


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.floats(-5, 5)), unique_by=lambda one: one[0]), st.integers(0, 8)
)
def test_a_continued_ranking_is_in_the_total_order_and_keeps_both_parts_in_theirs(
    scored: list[tuple[str, float]], cut: int
) -> None:
    head, below = (ranked(Scored(*one) for one in part) for part in (scored[:cut], scored[cut:]))
    whole = continued(head, below)
    assert whole[: len(head)] == head
    assert ids(whole) == ids(head) + ids(below)
    assert ranked(whole) == whole


@given(
    st.lists(runs(least=1), min_size=1, max_size=3),
    st.integers(1, 12),
    st.floats(0, 1),
    st.sampled_from(NORMALISATIONS),
)
def test_the_first_hits_alone_are_those_of_the_whole_ranking(
    rankings: list[Ranking], top: int, weight: float, by: Normalisation
) -> None:
    legs, weights = AlignedLegs(Leg(ranking, 0.0) for ranking in rankings), [weight + 0.1] * len(rankings)
    assert legs.reciprocal_rank(weights, 60, top) == legs.reciprocal_rank(weights, 60)[:top]
    assert legs.weighted(weights, by, top) == legs.weighted(weights, by)[:top]
    mixture = Mixture(rankings[0], dict.fromkeys(ids(rankings[0])[::2], 0.5))
    assert mixture.at(weight, top) == mixture.at(weight)[:top]


def test_legs_that_were_fused_before_are_fused_as_if_for_the_first_time() -> None:
    legs = AlignedLegs([Leg(BM25, 0.0), Leg(DENSE, -1.0)])
    for weights in ([0.3, 0.7], [0.9, 0.1]):
        for by in NORMALISATIONS:
            assert legs.weighted(weights, by) == weighted(BM25, DENSE, by=by, weights=weights)
        for k in (1, 60):
            assert legs.reciprocal_rank(weights, k) == reciprocal_rank(BM25, DENSE, k=k, weights=weights)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=12), st.sampled_from([-1000, -500, 500, 900]))
def test_scores_of_any_magnitude_are_normalised_alike(values: list[float], exponent: int) -> None:
    plain = tuple(Scored(f"d{place:02}", round(value)) for place, value in enumerate(values))
    scaled = tuple(Scored(one.id, math.ldexp(one.score, exponent)) for one in plain)
    for by in ("min-max", "z-score"):
        assert weighted(scaled, by=by) == weighted(plain, by=by)
