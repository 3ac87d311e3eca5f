"""Plans when requests are sent and with which queries, from a seed. Pure: knows neither clock nor gateway."""

import itertools
import random
from collections.abc import Iterator, Sequence

from evaluator.experiments.load_plan import ArrivalProcess, QueryDraw


def arrival_times(rate: float, seconds: float, process: ArrivalProcess, seed: str) -> list[float]:
    """Returns the planned send times, in seconds since the start, ascending.

    `poisson` has exponential gaps; `constant` spaces the requests evenly, the first at 0.
    """
    return [unit / rate for unit in itertools.takewhile(lambda one: one < rate * seconds, _unit_process(process, seed))]


def _unit_process(process: ArrivalProcess, seed: str) -> Iterator[float]:
    if process == "constant":
        return (float(number) for number in itertools.count())
    dice = random.Random(seed)
    return itertools.accumulate(dice.expovariate(1.0) for _ in itertools.count())


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
