"""Tests every pair of pipelines on a set, and finds the best fusions of two and of three. Pure.

A fusion is by reciprocal ranks (k 60) of the first 100 documents of each ranking. Its choice is that of a replay.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from evaluator.analyses.analysis_report import FusedPipelines, PipelinePair
from evaluator.metrics.quality import Grades
from evaluator.metrics.verdict import compare_pairs, scored_pair
from evaluator.replay.choice import FOLDS, QueryAnswers, best, honest_mean, measured
from services.contracts.scored import paired
from services.ranking.fusion import AlignedLegs, Leg

METRIC, ANSWER = "nDCG@10", 10
LEG = 100  # documents of a ranking that a fusion reads
SIZES = (2, 3)

Figures = Mapping[str, Mapping[str, float | None]]  # pipeline → query → nDCG@10
Rankings = Mapping[str, Mapping[str, Sequence[str]]]  # pipeline → query → documents, best first


def compared_pairs(figures: Figures) -> tuple[PipelinePair, ...]:
    """Returns every pair with its p in the family of all pairs. The better pipeline of a pair is the first."""
    pairs = [scored_pair(first, second, figures[first], figures[second]) for first, second in combinations(figures, 2)]
    return tuple(
        PipelinePair(
            better=compared.second if compared.difference > 0 else compared.first,
            worse=compared.first if compared.difference > 0 else compared.second,
            difference=abs(compared.difference),
            p=compared.p,
            queries=compared.queries,
        )
        for compared in compare_pairs([pair for pair in pairs if pair.first_values], METRIC)
    )


def best_fusions(
    rankings: Rankings,
    queries: Sequence[str],
    grades: Grades,
    seed: int,
    advance: Callable[[int], None] = lambda queries: None,
) -> Iterator[FusedPipelines]:
    """Yields the best fusion of each size, with its mean over queries that were held out when it was chosen.

    `advance` takes the number of queries just done.
    """
    every = [names for size in SIZES for names in combinations(rankings, size)]
    if not every or not queries:
        return
    answers = []
    for query in queries:
        answers.append(_answers(query, rankings, every))
        advance(1)
    values = measured(answers, grades, len(every), METRIC)
    for size in SIZES:
        places = [at for at, names in enumerate(every) if len(names) == size]
        if not places:
            continue
        own = values[places]
        held_out, _ = honest_mean(own, min(FOLDS, len(queries)), seed)
        means = own.mean(axis=1).tolist()
        chosen = best(means)
        yield FusedPipelines(
            pipelines=every[places[chosen]],
            ndcg_at_10=means[chosen],
            held_out=None if math.isnan(held_out) else held_out,
            tried=len(places),
        )


def _answers(query: str, rankings: Rankings, every: Sequence[tuple[str, ...]]) -> QueryAnswers:
    legs = {}
    for name, by_query in rankings.items():
        first = by_query.get(query, ())[:LEG]
        legs[name] = Leg(paired((document, float(len(first) - rank)) for rank, document in enumerate(first)))
    fused = []
    for names in every:
        aligned = AlignedLegs([legs[name] for name in names])
        fused.append(tuple(hit.id for hit in aligned.reciprocal_rank([1.0] * len(names), top=ANSWER)))
    numbers = {answer: number for number, answer in enumerate(dict.fromkeys(fused))}
    return QueryAnswers(query, tuple(numbers), tuple(numbers[answer] for answer in fused))
