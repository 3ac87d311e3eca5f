"""Simulates pairs of systems whose true difference is known, and counts how often the statistics are right.

A query has a difficulty; a system places its one relevant document at a rank that the difficulty and chance decide, and
scores nDCG@10. So the values have what real ones have: ties, zeros, ones, steps, and skewed differences.
"""

import asyncio
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.comparison.contenders import contenders
from evaluator.comparison.paired_tests import (
    ALPHA,
    RESAMPLES,
    above_p,
    bca_interval,
    equivalence_p,
    holm,
    minimum_detectable,
    sign_flip_p,
)
from tests.soak.outcome import Bar, Outcome

PAIRS = 400
INTERVALS_PER_PAIR = 5
FAMILY = 4  # pairs of a family that Holm adjusts: five pipelines against the first
COUNTS = (50, 300)  # of queries: a small collection, and SciFact's
POPULATION = 200_000
# Shifts of the five pipelines of a run: two are equally good, one is nearly so.
PIPELINES = (0.2, 0.2, 0.15, 0.0, -0.3)
SAYS = (
    "Systems are simulated, so that their true difference is known. A/A pairs are two draws of one system. The other "
    "pairs differ by the minimum detectable difference of the true spread. *Stated* is the minimum detectable "
    "difference that a sample of this many queries names: mean and standard deviation over the pairs. *Family* is the "
    "share of families of four A/A pairs in which Holm leaves any pair different. *Gate* and *same* are errors at the "
    "margin: B is worse by exactly the margin and passes the gate of no-worse-than, or differs by exactly it and is "
    "called the same within it; the margin is the true difference. *Best* is the share of runs of five pipelines whose "
    "truly best one is among those that are recommended from."
)


@dataclass(frozen=True, slots=True)
class PowerCount:
    """Counts of one number of queries, as shares."""

    queries: int
    true_difference: float
    called_different: float  # of the A/A pairs
    found: float  # of the pairs whose true difference is the minimum detectable one
    stated: tuple[float, float]
    covered: float  # of the intervals: they hold the true difference
    family: float  # of the families of A/A pairs: Holm leaves one of them different
    passed_gate: float  # of the pairs that are worse by exactly the margin
    called_same: float  # of the pairs that differ by exactly the margin
    best_contends: float  # of the runs of five pipelines, five times as many as pairs: the best one is not ruled out


def drawn_scores(dice: np.random.Generator, queries: int, shifts: Sequence[float]) -> list[list[float]]:
    """Draws queries and returns nDCG@10 of each system, by query. Its shift moves its relevant documents up."""
    difficulty = dice.normal(0.8, 1.2, queries)
    ranks = [np.ceil(np.exp(difficulty + dice.normal(0.0, 0.7, queries) - moved)) for moved in shifts]
    return [np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0).tolist() for rank in ranks]


def drawn_differences(dice: np.random.Generator, queries: int, shift: float) -> NDArray[np.float64]:
    """Draws queries and returns nDCG@10 of B less that of A. `shift` moves B's relevant documents up."""
    first, second = drawn_scores(dice, queries, (0.0, shift))
    return np.asarray(second, dtype=np.float64) - np.asarray(first, dtype=np.float64)


def detectable_shift(seed: int, queries: int) -> tuple[float, float]:
    """Returns the shift that makes the true difference the minimum detectable one, and that difference."""
    unit = [1.0, -1.0] * (queries // 2)
    detectable = minimum_detectable(unit)
    assert detectable is not None
    effect = detectable / statistics.stdev(unit)
    low, high = 0.0, 3.0
    while True:
        middle = (low + high) / 2
        population = drawn_differences(np.random.default_rng(seed), POPULATION, middle)
        if high - low < 1e-4:
            return middle, float(population.mean())
        low, high = (middle, high) if population.mean() < effect * population.std() else (low, middle)


def count(seed: int, queries: int, pairs: int, resamples: int) -> PowerCount:
    """Draws `pairs` samples of each kind and counts."""
    dice = np.random.default_rng([seed, queries])  # another stream than that of the tests
    shift, difference = detectable_shift(seed, queries)
    equal = [drawn_differences(dice, queries, 0.0).tolist() for _ in range(pairs)]
    better = [drawn_differences(dice, queries, shift).tolist() for _ in range(pairs)]
    stated = [value for sample in better if (value := minimum_detectable(sample)) is not None]
    covered = 0
    for number in range(INTERVALS_PER_PAIR * pairs):
        low, high = bca_interval(drawn_differences(dice, queries, shift).tolist(), seed + number, resamples)
        covered += low <= difference <= high
    others = np.random.default_rng([seed, queries, FAMILY])
    families = [[drawn_differences(others, queries, 0.0).tolist() for _ in range(FAMILY)] for _ in range(pairs)]
    runs = [drawn_scores(others, queries, PIPELINES) for _ in range(INTERVALS_PER_PAIR * pairs)]
    return PowerCount(
        queries=queries,
        true_difference=difference,
        called_different=sum(sign_flip_p(sample, seed, resamples) < ALPHA for sample in equal) / pairs,
        found=sum(sign_flip_p(sample, seed, resamples) < ALPHA for sample in better) / pairs,
        stated=(statistics.fmean(stated), statistics.stdev(stated)),
        covered=covered / (INTERVALS_PER_PAIR * pairs),
        family=sum(
            min(holm([sign_flip_p(sample, seed, resamples) for sample in family])) < ALPHA for family in families
        )
        / pairs,
        passed_gate=sum(above_p([-value for value in sample], -difference) < ALPHA for sample in better) / pairs,
        called_same=sum(equivalence_p(sample, difference) < ALPHA for sample in better) / pairs,
        best_contends=sum(contenders(run, seed, resamples)[0] for run in runs) / len(runs),
    )


async def run(seed: int, size: int = PAIRS, counts: tuple[int, ...] = COUNTS, resamples: int = RESAMPLES) -> Outcome:
    """Simulates `size` pairs of each kind, and five times as many intervals, for each number of queries."""
    found = [await asyncio.to_thread(count, seed, queries, size, resamples) for queries in counts]
    bars = [
        bar
        for each in found
        for bar in (
            Bar(
                f"{each.queries} queries: at most 7 % of {size} A/A pairs are called different",
                f"{each.called_different:.1%}",
                each.called_different <= 0.07,
            ),
            Bar(
                f"{each.queries} queries: at least 75 % of {size} differences of minimum detectable size are found",
                f"{each.found:.1%}",
                each.found >= 0.75,
            ),
            Bar(
                f"{each.queries} queries: 93 to 97 % of {INTERVALS_PER_PAIR * size} intervals hold the true difference",
                f"{each.covered:.1%}",
                0.93 <= each.covered <= 0.97,
            ),
            Bar(
                f"{each.queries} queries: Holm calls a pair different in at most 7 % of {size} families of A/A pairs",
                f"{each.family:.1%}",
                each.family <= 0.07,
            ),
            Bar(
                f"{each.queries} queries: at most 7 % of {size} pairs worse by the margin pass the gate",
                f"{each.passed_gate:.1%}",
                each.passed_gate <= 0.07,
            ),
            Bar(
                f"{each.queries} queries: at most 7 % of {size} pairs that differ by the margin are called the same",
                f"{each.called_same:.1%}",
                each.called_same <= 0.07,
            ),
            Bar(
                f"{each.queries} queries: in 95 % of {INTERVALS_PER_PAIR * size} runs the best of five is kept",
                f"{each.best_contends:.1%}",
                each.best_contends >= 0.94,
            ),
        )
    ]
    rows = [
        (
            str(each.queries),
            f"{each.true_difference:.4f}",
            f"{each.stated[0]:.4f} ± {each.stated[1]:.4f}",
            f"{each.called_different:.1%}",
            f"{each.found:.1%}",
            f"{each.covered:.1%}",
            f"{each.family:.1%}",
            f"{each.passed_gate:.1%}",
            f"{each.called_same:.1%}",
            f"{each.best_contends:.1%}",
        )
        for each in found
    ]
    columns = (
        "queries",
        "true difference",
        "stated",
        "A/A called different",
        "found",
        "intervals right",
        "family",
        "gate",
        "same",
        "best",
    )
    return Outcome("power", SAYS, seed, columns, tuple(rows), tuple(bars), ())
