"""Decides whether the generators kept the plan of a load: send lag, CPU, dropped requests.

Also remarks whose cores the generators share, and what was not checked. Leaves lost and degraded answers to the
figures: they are results, not faults of the measurement.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from urllib.parse import urlsplit

from pydantic import FiniteFloat

from evaluator.load.sending.drives import GeneratorUse
from evaluator.machine.machine_conditions import MachineConditions, unchecked_foreign
from evaluator.machine.measured_processes import is_this_machine
from evaluator.runs.latency import percentile
from services.contracts.base import Count, Wire

# Requests that leave later than this are another load than the planned one.
MOST_LAG_MS = 1.0
MOST_LAG_SHARE = 0.01  # of p50, where that is more
MOST_GENERATOR_CPU = 0.5  # of a core: above it the generator delays what it measures


class GeneratorFigures(Wire):
    """How well the generators kept the plan."""

    processes: Count
    cpu: FiniteFloat  # of a core, of the generator that used most
    real_time: bool  # whether all ran with real-time priority
    send_lag_p50_ms: FiniteFloat | None  # null: nothing was sent
    send_lag_p99_ms: FiniteFloat | None
    send_lag_max_ms: FiniteFloat | None


def cpu_shares(slices: Iterable[Sequence[GeneratorUse]]) -> list[float]:
    """Returns the share of a core of each generator over all slices.

    A slice starts generators of its own, a short one fewer: those at one place among them count as one. A slice of few
    requests ends early, so that its own share would be that of a start.
    """
    places = zip_longest(*slices, fillvalue=GeneratorUse(0.0, 0.0))
    return [
        sum(use.cpu_s for use in place) / seconds if (seconds := sum(use.seconds for use in place)) else 0.0
        for place in places
    ]


def generator_figures(cpu_shares: Sequence[float], lags_ms: Sequence[float], *, real_time: bool) -> GeneratorFigures:
    """Returns the figures of the generators' processes and of the requests' lags."""
    ordered = sorted(lags_ms)
    return GeneratorFigures(
        processes=len(cpu_shares),
        cpu=max(cpu_shares),
        real_time=real_time,
        send_lag_p50_ms=percentile(ordered, 0.5) if ordered else None,
        send_lag_p99_ms=percentile(ordered, 0.99) if ordered else None,
        send_lag_max_ms=ordered[-1] if ordered else None,
    )


def generator_faults(generators: GeneratorFigures, p50_ms: float | None, dropped: int) -> Iterator[str]:
    """Yields a sentence for each way in which the generators did not keep the plan."""
    lag = generators.send_lag_p99_ms
    allowed = max(MOST_LAG_MS, MOST_LAG_SHARE * (p50_ms or 0.0))
    if lag is not None and lag >= allowed:
        advice = (
            "" if generators.real_time else "; without real-time priority (CAP_SYS_NICE) a generator waits for others"
        )
        yield f"1 % of the requests left {lag:.1f} ms or more after their planned time (limit {allowed:.1f} ms){advice}"
    if generators.cpu >= MOST_GENERATOR_CPU:
        yield f"a generator used {generators.cpu:.0%} of a core (limit {MOST_GENERATOR_CPU:.0%})"
    if dropped:
        yield f"{dropped} requests were dropped, so that the system met less load than planned"


def machine_remarks(gateways: Sequence[str], conditions: Sequence[MachineConditions]) -> Iterator[str]:
    """Yields whose cores the generators share, and what was not checked.

    `conditions`: of every slice; none where a search for the capacity ended without a point.
    """
    if any(is_this_machine(url) for url in gateways):
        cores = conditions[0].cores if conditions else os.cpu_count()
        yield f"the generators share the {cores} cores of this machine with the system under test"
    for url in gateways:
        if not is_this_machine(url):
            yield (
                f"{urlsplit(url).netloc} is no address of this machine: foreign CPU, steal and throttling of the "
                "gateway's machine were not checked"
            )
    yield from unchecked_foreign(conditions)
