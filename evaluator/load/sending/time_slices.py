"""Drives kinds of traffic slice by slice, the pipelines in turn; if planned, beside loading. No files."""

from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from evaluator.load.sending.corpus_loader import CorpusLoader
from evaluator.load.sending.drives import LoadedPoint, drive, run_closed
from evaluator.load.sending.kinds import Traffic, slice_count
from evaluator.load.sending.prepared_load import PreparedLoad
from evaluator.load.sending.process_watch import ProcessWatch
from evaluator.load.sending.traffic import PlannedSlice, open_slices
from evaluator.steps.arms import Arm

Pids = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A drive and its place in the run."""

    traffic: str  # its label
    pipeline: str  # that was asked, or would have been if a request had been planned
    loaded: LoadedPoint
    number: int
    repeat: int
    place: int = 0  # drives of the repeat before it

    @classmethod
    def labelled(cls, traffic: Traffic, pipeline: str, loaded: LoadedPoint, number: int, repeat: int) -> "TimeSlice":
        """Returns a slice whose samples hold their place in the run."""
        samples = tuple(one.model_copy(update={"slice": number, "repeat": repeat}) for one in loaded.samples)
        return cls(traffic.label, pipeline, replace(loaded, samples=samples), number, repeat)


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
    """Yields the drives of kinds of traffic that take turns, slice by slice.

    The pipelines of a slice are in the next of `turns`, which are those of the whole plan. Two kinds take turns as
    idle, loading, loading, idle.
    """
    first = group[0]
    count = slice_count(ready.plan, len(arms))
    slices = _planned_slices(first, ready, count, repeat)
    for number, (planned, turn) in enumerate(zip(slices, turns, strict=False)):
        for traffic in group if number % 2 == 0 else reversed(group):
            meanwhile = loader if traffic.while_loading else None
            async with nullcontext() if meanwhile is None else meanwhile.loading():
                for at in turn:
                    part = _drive_slice(traffic, ready, arms[at].name, planned, f"{repeat} {number}", count, measured)
                    loaded = await watch.with_costs(part if meanwhile is None else meanwhile.counted(part))
                    yield TimeSlice.labelled(traffic, arms[at].name, loaded, number, repeat)


def _planned_slices(traffic: Traffic, ready: PreparedLoad, count: int, repeat: int) -> Iterator[PlannedSlice]:
    """Yields the plan of each slice, the same for all traffic of a group; of a closed loop the warm-up alone."""
    plan = ready.plan
    if traffic.in_flight is not None:
        return (PlannedSlice(0.0 if number else plan.warmup_seconds, []) for number in range(count))
    rate, seconds = traffic.rate or 0.0, plan.seconds / count
    return open_slices(ready.target.queries, rate, seconds, count, plan, ready.seed, repeat)


async def _drive_slice(
    traffic: Traffic, ready: PreparedLoad, pipeline: str, planned: PlannedSlice, part: str, count: int, measured: Pids
) -> LoadedPoint:
    """Drives one pipeline in one slice. `part`: what a closed loop draws its queries as; its requests have no plan."""
    target, plan, warmup_s = ready.target, ready.plan, planned.warmup_s
    if traffic.in_flight is not None:
        seconds = plan.seconds / count
        return await run_closed(
            target, pipeline, traffic.in_flight, seconds, plan,
            seed=ready.seed, part=part, warmup_seconds=warmup_s, measured=measured,
        )  # fmt: skip
    label, requests = traffic.asked_through(pipeline), planned.through(pipeline)
    return await drive(target, requests, plan, label, traffic.rate or 0.0, warmup_seconds=warmup_s, measured=measured)
