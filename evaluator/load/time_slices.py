"""Drives kinds of traffic slice by slice, the pipelines in turn; where the plan says so, beside loading. No files."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from evaluator.arms import Arm
from evaluator.load.corpus_loader import CorpusLoader
from evaluator.load.kinds import Traffic, slice_count
from evaluator.load.point import LoadedPoint, drive, run_closed, run_point
from evaluator.load.prepared_load import PreparedLoad
from evaluator.load.process_watch import ProcessWatch
from evaluator.load.traffic import LoadTarget, open_requests, slice_seed
from evaluator.load_plan import LoadPlan, TrafficStep

Pids = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A drive and its place in the run."""

    traffic: str  # its label
    pipelines: tuple[str, ...]  # that were asked, or would have been if a request had been planned
    loaded: LoadedPoint
    number: int
    repeat: int
    place: int = 0  # drives of the repeat before it

    @classmethod
    def labelled(
        cls, traffic: Traffic, pipelines: tuple[str, ...], loaded: LoadedPoint, number: int, repeat: int
    ) -> "TimeSlice":
        """Returns a slice whose samples tell their place in the run."""
        samples = tuple(one.model_copy(update={"slice": number, "repeat": repeat}) for one in loaded.samples)
        return cls(traffic.label, pipelines, replace(loaded, samples=samples), number, repeat)


async def driven_slices(
    group: Sequence[Traffic],
    ready: PreparedLoad,
    arms: Sequence[Arm],
    turns: Iterator[Sequence[int]],
    repeat: int,
    measured: Pids,
    watch: ProcessWatch,
    loader: CorpusLoader | None,
) -> AsyncGenerator[TimeSlice]:
    """Yields the drives of kinds of traffic that take turns: a trace as a whole, else slices.

    The pipelines of a slice are in the next of `turns`, which are those of the whole plan. Two kinds take turns as
    idle, loading, loading, idle.
    """
    first = group[0]
    if first.trace:
        mean = len(first.trace) / max(1.0, first.trace[-1].at_s)
        whole = drive(ready.target, first.trace, ready.plan, mean, measured=measured)
        asked = tuple(dict.fromkeys(request.pipeline for request in first.trace))
        yield TimeSlice.labelled(first, asked, await watch.with_costs(whole), 0, repeat)
        return
    count = slice_count(first, ready.plan, len(arms))
    for number, turn in zip(range(count), turns, strict=False):
        warmup_s = ready.plan.warmup_seconds if number == 0 else 0.0
        for traffic in group if number % 2 == 0 else reversed(group):
            meanwhile = loader if traffic.while_loading else None
            async with nullcontext() if meanwhile is None else meanwhile.loading():
                for at in turn:
                    of_slice = slice_seed(ready.seed, traffic.name, repeat, number)
                    part = _drive_slice(
                        traffic, ready.plan, ready.target, arms[at].name, count, of_slice, warmup_s, measured
                    )
                    loaded = await watch.with_costs(part if meanwhile is None else meanwhile.counted(part))
                    yield TimeSlice.labelled(traffic, (arms[at].name,), loaded, number, repeat)


async def _drive_slice(
    traffic: Traffic,
    plan: LoadPlan,
    target: LoadTarget,
    pipeline: str,
    count: int,
    seed: str,
    warmup_s: float,
    measured: Pids,
) -> LoadedPoint:
    seconds = plan.seconds / count
    if traffic.rate is not None:
        return await run_point(
            target, pipeline, traffic.rate, seconds, plan, seed=seed, warmup_seconds=warmup_s, measured=measured
        )
    if traffic.in_flight is not None:
        return await run_closed(
            target, pipeline, traffic.in_flight, seconds, plan, seed=seed, warmup_seconds=warmup_s, measured=measured
        )
    steps = traffic.steps
    if warmup_s:
        steps = (TrafficStep(rate=steps[0].rate, seconds=warmup_s), *steps)
    highest = max(max(step.rate, step.to or 0.0) for step in steps)
    requests = open_requests(target, pipeline, steps, plan, seed)
    return await drive(target, requests, plan, highest, warmup_seconds=warmup_s, measured=measured)
