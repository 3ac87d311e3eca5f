"""The pair judged next is the one whose judgment can change the comparison most."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from evaluator.judging.judge_next import JudgeNext
from evaluator.judging.pool import PooledPair, pooled_pairs
from evaluator.metrics.metric_formulas import QueryJudgments, ndcg

CANDIDATES, TOP = 60, 10
GRADES = (0.80, 0.10, 0.06, 0.04)  # shares of the candidates of a query
# How far a grade lifts a document's score, against noise of 1 that all systems share and noise of 1 of each system's
# own. A difference of 0.4 in it is about 0.05 in nDCG@10.
QUALITY, SPREAD = 1.0, 0.4

Lists = dict[str, tuple[str, ...]]
Known = dict[str, dict[str, int]]


@dataclass(frozen=True, slots=True)
class SimulatedCollection:
    """Two rankings to compare, the judgments that an older system's top 10 got, and the grades of all documents."""

    first: Lists
    second: Lists
    judged: Known
    truth: Known


def simulated_collection(seed: int, queries: int) -> SimulatedCollection:
    """Draws a collection. The second system is better or worse by a uniform draw within SPREAD.

    The documents of an older system are judged.
    """
    dice = np.random.default_rng(seed)
    qualities = {"first": QUALITY, "second": QUALITY + dice.uniform(-SPREAD, SPREAD), "older": QUALITY}
    rankings: dict[str, Lists] = {name: {} for name in qualities}
    truth: Known = {}
    for number in range(queries):
        query, names = f"q{number}", [f"d{at}" for at in range(CANDIDATES)]
        grades = dice.choice(len(GRADES), CANDIDATES, p=GRADES)
        shared = dice.normal(0.0, 1.0, CANDIDATES)
        truth[query] = dict(zip(names, grades.tolist(), strict=True))
        for name, quality in qualities.items():
            scores = quality * grades + shared + dice.normal(0.0, 1.0, CANDIDATES)
            rankings[name][query] = tuple(names[at] for at in np.argsort(-scores)[:TOP])
    judged = {query: {name: truth[query][name] for name in rankings["older"][query]} for query in truth}
    return SimulatedCollection(rankings["first"], rankings["second"], judged, truth)


def judge_next(first: Lists, second: Lists, judged: Known) -> tuple[JudgeNext, tuple[PooledPair, ...]]:
    pairs = pooled_pairs([first, second], judged, list(first), TOP, 1)
    return JudgeNext([first, second], list(first), judged, pairs), pairs


def test_a_document_that_one_side_ranks_first_comes_before_one_that_both_rank_alike() -> None:
    order = judge_next({"q": ("a", "b", "c")}, {"q": ("d", "b", "e")}, {})[0].order({})
    assert {pair.document for pair in order[:2]} == {"a", "d"}
    assert order[-1].document == "b"


def test_a_document_weighs_less_where_more_is_known_to_be_relevant() -> None:
    known = {"rich": {f"k{number}": 3 for number in range(10)}, "poor": {"k": 1}}
    order = judge_next({"rich": ("a",), "poor": ("b",)}, {"rich": ("c",), "poor": ("d",)}, known)[0].order({})
    assert [pair.query for pair in order] == ["poor", "poor", "rich", "rich"]


def difference(first: Lists, second: Lists, grades: Known) -> float:
    return math.fsum(
        ndcg(QueryJudgments(judged, ()), [(name,) for name in ranking[query]], 10) * sign
        for query, judged in grades.items()
        for ranking, sign in ((second, 1), (first, -1))
    )


def test_the_order_is_that_of_the_changes_computed_one_by_one() -> None:
    collection = simulated_collection(2, queries=6)
    following, pairs = judge_next(collection.first, collection.second, collection.judged)
    graded = {pair: collection.truth[pair.query][pair.document] for pair in pairs[:10]}
    grades = {query: dict(known) for query, known in collection.judged.items()}
    for pair, grade in graded.items():
        grades[pair.query][pair.document] = grade
    before = difference(collection.first, collection.second, grades)
    weights = []
    for pair in following.order(graded):
        changed = [{**grades, pair.query: {**grades[pair.query], pair.document: grade}} for grade in (1, 2, 3)]
        weights.append(
            max(abs(difference(collection.first, collection.second, grades_then) - before) for grades_then in changed)
        )
    assert len(weights) == len(pairs) - 10
    assert weights == pytest.approx(sorted(weights, reverse=True))


def test_grades_that_changed_or_were_taken_back_give_the_order_of_a_new_beginning() -> None:
    collection = simulated_collection(4, queries=5)
    following, pairs = judge_next(collection.first, collection.second, collection.judged)
    following.order(dict.fromkeys(pairs[:8], 3))
    later = {pairs[0]: 3, pairs[1]: 0, pairs[9]: 2}
    anew, _ = judge_next(collection.first, collection.second, collection.judged)
    assert following.order(later) == anew.order(later)
    assert following.order(dict.fromkeys(pairs, 0)) == []
