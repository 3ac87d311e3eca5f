"""Measures the rates that a search for the capacity asks for, through the gateway, and keeps their requests."""

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import count

from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.capacity.search import FoundCapacity, MeasuredRate, RateSample, find_capacity
from evaluator.load.sending.drives import LoadedPoint, run_point
from evaluator.load.sending.kinds import Traffic
from evaluator.load.sending.time_slices import TimeSlice
from evaluator.load.sending.traffic import LoadTarget
from evaluator.load.statistics.validity import cpu_shares, generator_figures, load_faults
from evaluator.progress import say
from evaluator.runs.latency import percentile
from evaluator.thread_work import in_thread

SEARCH = "search"  # in the name of the file of a search's requests


async def searched_capacity(
    target: LoadTarget,
    pipeline: str,
    plan: LoadPlan,
    load_seed: int,
    measured: Collection[int] | None,
    keep: Callable[[TimeSlice], None],
) -> FoundCapacity:
    """Searches the capacity of a pipeline and prints each rate that it measured. `plan`, `measured`: as of run_point.

    `keep` is called in a thread with the requests of each look at a rate, when it has ended.
    """
    capacity = plan.capacity
    assert capacity is not None  # whoever searches was asked to
    looks = count()

    async def measure(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        loaded = await run_point(
            target, pipeline, rate, seconds, plan, seed=load_seed, part=seed, warmup_seconds=warmup_s, measured=measured
        )
        await in_thread(keep, search_slice(pipeline, rate, loaded, next(looks)))
        return rate_sample(loaded)

    def report_rate(one: MeasuredRate) -> None:
        say(f"{pipeline} at {one.rate:g}/s: {one.outcome} ({one.over} of {one.requests} requests over the bound)")

    return await find_capacity(capacity, "capacity", measure, report_rate)


def search_slice(pipeline: str, rate: float, loaded: LoadedPoint, number: int) -> TimeSlice:
    """Returns a look at a rate as a slice of the search, whose samples hold the rate."""
    samples = tuple(one.model_copy(update={"rate": rate}) for one in loaded.samples)
    return TimeSlice.labelled(Traffic(SEARCH, rate=rate), pipeline, replace(loaded, samples=samples), number, 0)


def rate_sample(loaded: LoadedPoint) -> RateSample:
    """Returns what the search has to know of a drive.

    Its halves are not compared: beyond the capacity the queue grows, so that the later one takes longer. Dropped
    requests count as lost.
    """
    samples = [sample for sample in loaded.samples if sample.phase == "measured"]
    counted = [sample.counted_ms for sample in samples]
    lags = [sample.send_lag_ms for sample in samples if sample.send_lag_ms is not None]
    p50_ms = percentile(sorted(counted), 0.5) if counted else None
    generators = generator_figures(cpu_shares([loaded.generators]), lags, real_time=loaded.real_time)
    return RateSample(
        counted_ms=counted,
        lost=[sample.outcome != "answered" or bool(sample.degraded) for sample in samples],
        faults=tuple(load_faults(generators, p50_ms, None, [loaded.conditions], dropped=0)),
    )
