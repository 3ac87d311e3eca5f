"""Measures the rates that a search for the capacity asks for, through the gateway."""

from collections.abc import Collection

from evaluator.latency import percentile
from evaluator.load.capacity import FoundCapacity, MeasuredRate, RateSample, find_capacity
from evaluator.load.point import LoadedPoint, run_point
from evaluator.load.traffic import LoadTarget
from evaluator.load.validity import cpu_shares, generator_figures, load_faults
from evaluator.load_plan import LoadPlan
from evaluator.progress import say


async def searched_capacity(
    target: LoadTarget,
    pipeline: str,
    plan: LoadPlan,
    load_seed: int,
    measured: Collection[int] | None,
) -> FoundCapacity:
    """Searches the capacity of a pipeline and says each rate that it measured. `plan`, `measured`: as of run_point."""
    capacity = plan.capacity
    assert capacity is not None  # whoever searches was asked to

    async def measure(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        loaded = await run_point(
            target, pipeline, rate, seconds, plan, seed=load_seed, part=seed, warmup_seconds=warmup_s, measured=measured
        )
        return rate_sample(loaded, capacity.p99_ms)

    def report_rate(one: MeasuredRate) -> None:
        say(f"{pipeline} at {one.rate:g}/s: {one.outcome} ({one.over} of {one.requests} requests over the bound)")

    return await find_capacity(capacity, "capacity", measure, report_rate)


def rate_sample(loaded: LoadedPoint, bound_ms: float) -> RateSample:
    """Returns what the search has to know of a drive.

    Its halves are not compared: beyond the capacity the queue grows, so that the later one takes longer. A send lag is
    judged by the bound, or by the median where that is longer. Dropped requests count as lost.
    """
    samples = [sample for sample in loaded.samples if sample.phase == "measured"]
    counted = [sample.counted_ms for sample in samples]
    lags = [sample.send_lag_ms for sample in samples if sample.send_lag_ms is not None]
    longer = max(bound_ms, percentile(sorted(counted), 0.5)) if counted else bound_ms
    generators = generator_figures(cpu_shares([loaded.generators]), lags, real_time=loaded.real_time)
    return RateSample(
        counted_ms=counted,
        lost=[sample.outcome != "answered" or bool(sample.degraded) for sample in samples],
        faults=tuple(load_faults(generators, longer, None, [loaded.conditions], dropped=0)),
    )
