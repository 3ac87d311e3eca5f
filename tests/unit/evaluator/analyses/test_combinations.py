"""Pairs are tested as `compare` tests them; the best fusion is the one that trying all by hand finds."""

import math
from itertools import combinations

import pytest

from evaluator.analyses.combinations import best_fusions, compared_pairs
from evaluator.metrics.verdict import compare_pairs, scored_pair

QUERIES = [f"q{n}" for n in range(20)]
GRADES = {query: {"r": 1} for query in QUERIES}


def ranking(rank: int | None, fillers: str) -> list[str]:
    """Returns five fillers with the relevant document at a rank; None: it is absent."""
    names = [f"{fillers}{n}" for n in range(5)]
    return names if rank is None else [*names[: rank - 1], "r", *names[rank - 1 :]]


# `first` and `second` find half of the answers each, `third` all of them late.
RANKINGS = {
    "first": {query: ranking(1 if n % 2 else None, "a") for n, query in enumerate(QUERIES)},
    "second": {query: ranking(None if n % 2 else 1, "b") for n, query in enumerate(QUERIES)},
    "third": {query: ranking(5, "c") for query in QUERIES},
}


def fused_by_hand(names: tuple[str, ...]) -> float:
    total = 0.0
    for query in QUERIES:
        scores: dict[str, float] = {}
        for name in names:
            for rank, document in enumerate(RANKINGS[name][query], start=1):
                scores[document] = scores.get(document, 0.0) + 1 / (60 + rank)
        place = sorted(scores, key=lambda document: (-scores[document], document)).index("r") + 1
        total += 1 / math.log2(place + 1) if place <= 10 else 0.0
    return total / len(QUERIES)


def test_the_best_fusions_of_two_and_of_three_are_those_that_trying_all_by_hand_finds() -> None:
    two, three = best_fusions(RANKINGS, QUERIES, GRADES, seed=1)
    by_hand = {names: fused_by_hand(names) for names in combinations(RANKINGS, 2)}
    assert two.pipelines == max(by_hand, key=lambda names: by_hand[names])
    assert two.ndcg_at_10 == pytest.approx(max(by_hand.values()))
    assert (two.tried, three.tried) == (3, 1)
    assert three.ndcg_at_10 == pytest.approx(fused_by_hand(three.pipelines))
    # One fusion is chosen by all folds, so that no query is measured with another.
    assert three.held_out == pytest.approx(three.ndcg_at_10)


def test_a_single_pipeline_and_a_single_query_have_no_more_than_they_can() -> None:
    assert list(best_fusions({"first": RANKINGS["first"]}, QUERIES, GRADES, seed=1)) == []
    (alone,) = best_fusions({name: RANKINGS[name] for name in ("first", "second")}, ["q1"], GRADES, seed=1)
    assert alone.held_out is None


def test_every_pair_has_the_p_that_compare_gives_it_in_a_family_of_all() -> None:
    figures: dict[str, dict[str, float | None]] = {
        name: {query: ((n * step) % 7) / 7 for n, query in enumerate(QUERIES)}
        for name, step in (("one", 1), ("two", 2), ("three", 3))
    }
    figures["better"] = dict.fromkeys(QUERIES, 1.0) | {"q3": None}  # q3 is in none of its pairs
    pairs = compared_pairs(figures)
    scored = [scored_pair(first, second, figures[first], figures[second]) for first, second in combinations(figures, 2)]
    for pair, wanted in zip(pairs, compare_pairs(scored, "nDCG@10"), strict=True):
        assert pair.p == wanted.p
        assert pair.queries == wanted.queries
        assert pair.difference == pytest.approx(abs(wanted.difference))
        assert {pair.better, pair.worse} == {wanted.first, wanted.second}
        assert (pair.better == wanted.second) == (wanted.difference > 0)
