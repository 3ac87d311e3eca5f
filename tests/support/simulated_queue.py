"""Simulates a queue with one server, Poisson arrivals and a fixed service time (M/D/1)."""

import numpy as np
import numpy.typing as npt

from evaluator.load.capacity import RateSample


def sojourn_ms(rate: float, service_ms: float, count: int, dice: np.random.Generator) -> npt.NDArray[np.float64]:
    """Returns wait and service of each request, by Lindley's recursion from an empty queue."""
    steps = service_ms - dice.exponential(1000.0 / rate, count)
    walk = np.concatenate(([0.0], np.cumsum(steps)[:-1]))
    # The recursion's closed form: the walk over its lowest point so far.
    waits: npt.NDArray[np.float64] = walk - np.minimum.accumulate(walk)
    return waits + service_ms


def true_capacity(service_ms: float, bound_ms: float) -> float:
    """Returns the rate at which 1 % of the requests take longer than the bound, from half a million of them."""
    low, high = 0.0, 1000.0 / service_ms
    while high / (low + 1e-9) > 1.002:
        middle = (low + high) / 2
        over = np.mean(sojourn_ms(middle, service_ms, 500_000, np.random.default_rng(7)) > bound_ms)
        low, high = (low, middle) if over > 0.01 else (middle, high)
    return low


class SimulatedQueue:
    """Measures rates of the queue, as a load generator would, and remembers for how long at each."""

    def __init__(self, service_ms: float, faults: tuple[str, ...] = (), lost_share: float = 0.0) -> None:
        self._service_ms = service_ms
        self._lost_share = lost_share
        self.faults = faults
        self.seconds: list[float] = []

    async def __call__(self, rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        self.seconds.append(warmup_s + seconds)
        dice = np.random.default_rng(list(seed.encode()))
        warm, count = dice.poisson(rate * warmup_s), dice.poisson(rate * seconds)
        times = sojourn_ms(rate, self._service_ms, warm + count, dice)[warm:]
        return RateSample(times.tolist(), (dice.random(count) < self._lost_share).tolist(), self.faults)
