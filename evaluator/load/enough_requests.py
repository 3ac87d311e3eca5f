"""Says before anything is sent which rates of a plan give too few requests for a p99. Pure."""

import math
from collections.abc import Iterator

from evaluator.experiments.load_plan import LoadPlan
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99

ROUND_S = 5


def too_few_requests(plan: LoadPlan) -> Iterator[str]:
    """Yields a sentence for each rate of which fewer requests are expected than a p99 needs, with the seconds it takes.

    Poisson arrivals need more seconds than constant ones, so that enough requests come 19 times in 20.
    """
    spread = 1.65 * math.sqrt(MIN_SAMPLES_FOR_P99) if plan.arrivals == "poisson" else 0.0
    for rate in plan.rates:
        least_s = (MIN_SAMPLES_FOR_P99 + spread) / rate / plan.repeat
        if plan.seconds < least_s:
            repeated = f" --repeat {plan.repeat}" if plan.repeat > 1 else ""
            yield (
                f"--rate {rate:g} --seconds {plan.seconds:g}{repeated} gives about "
                f"{rate * plan.seconds * plan.repeat:.0f} requests; a p99 needs {MIN_SAMPLES_FOR_P99}: "
                f"send --seconds {math.ceil(least_s / ROUND_S) * ROUND_S} or more"
            )
