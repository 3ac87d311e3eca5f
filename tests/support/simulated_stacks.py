"""Simulates the latencies of two stacks that take turns on a machine whose speed wanders."""

import math
import random

from evaluator.load.points.ratios import SlicePair

PAIRS = 20
REQUESTS = 60  # a slice
# Standard deviations of logarithms: of the machine's speed by slice, by request within a slice, of queries, and alone.
MACHINE, NEIGHBOURS, QUERIES, ALONE = 0.10, 0.15, 0.50, 0.15
MACHINE_CORRELATION, NEIGHBOUR_CORRELATION = 0.9, 0.8
STALLS, STALL_MS = 0.02, 40.0


def simulated_pairs(seed: int, slowdown: float = 1.0) -> list[SlicePair]:
    """Returns slices of 20 ms at the median; of the second stack every request takes `slowdown` times as long."""
    dice = random.Random(seed)
    machine, pairs = dice.gauss(0, MACHINE), []
    for _ in range(PAIRS):
        queries = [dice.lognormvariate(3.0, QUERIES) for _ in range(REQUESTS)]
        slices = []
        for factor in (1.0, slowdown):
            machine = _next(machine, MACHINE_CORRELATION, MACHINE, dice)
            slices.append(_slice([factor * query for query in queries], machine, dice))
        pairs.append(SlicePair(*slices))
    return pairs


def _slice(queries: list[float], machine: float, dice: random.Random) -> list[float]:
    neighbours, values = 0.0, []
    for query in queries:
        neighbours = _next(neighbours, NEIGHBOUR_CORRELATION, NEIGHBOURS, dice)
        stall = dice.expovariate(1 / STALL_MS) if dice.random() < STALLS else 0.0
        values.append(query * math.exp(machine + neighbours + dice.gauss(0, ALONE)) + stall)
    return values


def _next(value: float, correlation: float, deviation: float, dice: random.Random) -> float:
    """Returns the next value of a first-order autoregressive process."""
    return correlation * value + dice.gauss(0, deviation * math.sqrt(1 - correlation**2))
