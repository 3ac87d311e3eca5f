"""Says before a load how much is sent, how long that takes, and which rates give no p99. Pure; sends nothing."""

import math
from collections.abc import Iterator, Sequence

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.sending.kinds import Traffic, slice_count
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99

# The extra time of a drive: its generators start before it and its answers are read after it.
DRIVE_OVERHEAD_S = 1.0
ROUND_S = 5


def planned_work(plan: LoadPlan, groups: Sequence[Sequence[Traffic]], pipelines: int) -> str:
    """Returns kinds of traffic, pipelines, warm-up and duration of a plan in a line."""
    kinds = [traffic for group in groups for traffic in group]
    parts = []
    if kinds:
        again = f", {plan.repeat} times" if plan.repeat > 1 else ""
        warmup = f", each after {plan.warmup_seconds:g} s of warm-up" if plan.warmup_seconds else ""
        overhead_s = slice_count(plan, pipelines) * DRIVE_OVERHEAD_S
        seconds = plan.repeat * len(kinds) * pipelines * (plan.warmup_seconds + plan.seconds + overhead_s)
        named = f"{', '.join(_named(kinds))} x {_counted(pipelines, 'pipeline')}"
        parts.append(f"{named}{again}{warmup}, {duration(seconds)}")
    if plan.capacity is not None:
        parts.append(
            f"a search for the capacity of {_counted(pipelines, 'pipeline')}: measurements of at most "
            f"{plan.capacity.point_seconds:g} s each until it is found"
        )
    return f"Load: {'; '.join(parts)}"


def against_work(plan: LoadPlan, pairs: int, pipelines: int) -> str:
    """Returns the same of a comparison of two gateways, which take turns in `pairs` of slices."""
    drives = 2 * len(plan.rates) * pipelines
    seconds = drives * (plan.warmup_seconds + plan.seconds + pairs * DRIVE_OVERHEAD_S)
    what = f"{_counted(len(plan.rates), 'rate')} x {_counted(pipelines, 'pipeline')} x 2 gateways"
    return f"Against: {what}, each after {plan.warmup_seconds:g} s of warm-up, {duration(seconds)}"


def duration(seconds: float) -> str:
    """Returns about how long something takes, in words."""
    return f"about {math.ceil(seconds)} s" if seconds < 90 else f"about {math.ceil(seconds / 60)} min"


def _named(kinds: Sequence[Traffic]) -> Iterator[str]:
    rates = [one for one in kinds if one.rate is not None and not one.while_loading]
    loading = " (idle, and while loading)" if any(one.while_loading for one in kinds) else ""
    closed = [one for one in kinds if one.in_flight is not None]
    if rates:
        yield f"{_counted(len(rates), 'rate')}{loading}"
    if closed:
        yield _counted(len(closed), "closed loop")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


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
