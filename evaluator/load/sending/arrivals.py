"""Plans when requests are sent and with which queries, from a seed. Pure: knows neither clock nor gateway."""

import itertools
import math
import random
from collections.abc import Iterator, Sequence

from evaluator.experiments.load_plan import ArrivalProcess, QueryDraw, TrafficStep


def arrival_times(steps: Sequence[TrafficStep], process: ArrivalProcess, seed: str) -> list[float]:
    """Returns the planned send times of the steps, one after another, in seconds since their start, ascending.

    A process of rate 1 is stretched by the inverse of the cumulative rate (inversion, Çınlar 1975), so that changing
    rates are Poisson too. `constant` spaces the requests evenly, the first at 0.
    """
    times = []
    begin_s = begin_count = 0.0
    units = _unit_process(process, seed)
    unit = next(units)
    for step in steps:
        count = (step.rate + (step.rate if step.to is None else step.to)) / 2 * step.seconds
        while unit < begin_count + count:
            times.append(begin_s + _inverse(step, unit - begin_count))
            unit = next(units)
        begin_s += step.seconds
        begin_count += count
    return times


def _unit_process(process: ArrivalProcess, seed: str) -> Iterator[float]:
    if process == "constant":
        return (float(number) for number in itertools.count())
    dice = random.Random(seed)
    return itertools.accumulate(dice.expovariate(1.0) for _ in itertools.count())


def _inverse(step: TrafficStep, count: float) -> float:
    """Returns the time within the step by which `count` requests are expected."""
    slope = 0.0 if step.to is None else (step.to - step.rate) / step.seconds
    # The quadratic's root in the form that loses no digits where the slope is small.
    return 2 * count / (step.rate + math.sqrt(max(0.0, step.rate**2 + 2 * slope * count)))


def drawn_queries(queries: Sequence[str], draw: QueryDraw, exponent: float, seed: int, part: str) -> Iterator[str]:
    """Yields queries without end. `part`: what is drawn, of the things that are drawn from one seed.

    `uniform`: shuffles of all queries, one after another, so that any number of requests asks each query equally often
    but for one. `zipf`: with replacement; the k-th of a shuffled list is drawn k^-exponent times as often as its first,
    and this list is the same for all parts: the popular queries stay popular.
    """
    dice = random.Random(f"{seed} {part}")
    popular = random.Random(f"{seed} popular").sample(queries, len(queries))
    weights = [rank**-exponent for rank in range(1, len(queries) + 1)]
    while queries:
        if draw == "uniform":
            yield from dice.sample(queries, len(queries))
        else:
            yield from dice.choices(popular, weights, k=len(queries))
