"""Compares response times of two pipelines of one run, query by query. Pure.

Times of different runs are not compared: another load of the machine would be taken for another speed.
"""

import math
from collections.abc import Mapping

from pydantic import FiniteFloat

from evaluator.comparison.paired_tests import ALPHA, RESAMPLES
from services.contracts.base import Count, Wire

# A query and the uninterrupted segment of the run in which it was sent: only answers of one segment are a pair.
Sent = tuple[str, int]
# Fewer pairs make blocks of one or two, and the interval then ignores that neighbours in time are alike.
LEAST_PAIRS = 20


class LatencyRatio(Wire):
    """How many times as long `second` takes as `first`: geometric mean of the ratios of the same query."""

    first: str
    second: str
    ratio: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat]  # 95 %, circular block bootstrap
    pairs: Count  # queries that both answered
    block: Count  # pairs that stand together, in sending order


def latency_ratio(
    names: tuple[str, str], first_ms: Mapping[Sent, float], second_ms: Mapping[Sent, float], seed: int
) -> LatencyRatio | None:
    """Returns the ratio over the queries that both answered, in the order of `first_ms`; None for fewer than 20.

    Neighbours in time share the machine's load, so blocks of n^(1/3) are drawn, not single pairs (Politis and Romano
    1992, circular block bootstrap).
    """
    both = [query for query in first_ms if query in second_ms and first_ms[query] > 0 and second_ms[query] > 0]
    if len(both) < LEAST_PAIRS:
        return None
    import numpy as np

    logs = np.array([math.log(second_ms[query] / first_ms[query]) for query in both])
    n, block = len(logs), round(len(logs) ** (1 / 3))
    ring = np.concatenate([logs, logs[: block - 1]])
    means = np.convolve(ring, np.full(block, 1 / block), mode="valid")  # of the block from each start
    starts = np.random.default_rng(seed).integers(0, n, size=(RESAMPLES, math.ceil(n / block)))
    low, high = np.quantile(means[starts].mean(axis=1), [ALPHA / 2, 1 - ALPHA / 2])
    return LatencyRatio(
        first=names[0],
        second=names[1],
        ratio=math.exp(logs.mean()),
        interval=(math.exp(low), math.exp(high)),
        pairs=n,
        block=block,
    )
