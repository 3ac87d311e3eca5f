"""Drives kinds of traffic through pipelines, repeat by repeat, and keeps each slice's requests when it ends.

Leaves the figures of the slices to points/group_points.py.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from evaluator.experiments.turn_orders import balanced_turns
from evaluator.load.sending.corpus_loader import CorpusLoader
from evaluator.load.sending.kinds import Traffic, slice_count
from evaluator.load.sending.prepared_load import PreparedLoad
from evaluator.load.sending.process_watch import ProcessWatch
from evaluator.load.sending.sample_files import SampleFiles
from evaluator.load.sending.time_slices import Pids, TimeSlice, driven_slices
from evaluator.progress import progress
from evaluator.steps.arms import Arm
from evaluator.thread_work import in_thread


@dataclass(frozen=True, slots=True)
class LoadSurroundings:
    """What happens beside the requests of a load."""

    measured: Callable[[], Pids]  # the processes of the system under test now
    between: Callable[[], Awaitable[None]] | None  # called before every repeat but the first
    watch: ProcessWatch
    loader: CorpusLoader | None  # of a plan that searches while loading


async def driven_traffic(
    groups: Sequence[Sequence[Traffic]],
    arms: Sequence[Arm],
    ready: PreparedLoad,
    beside: LoadSurroundings,
    files: SampleFiles,
) -> list[TimeSlice]:
    """Drives every group in every repeat; returns the slices in the order in which they were sent."""
    slices: list[TimeSlice] = []
    # One order for everything: begun anew, each pipeline would follow the same one at every rate and repeat.
    turns = balanced_turns(len(arms), ready.seed)
    total = sum(map(len, groups)) * len(arms) * slice_count(ready.plan, len(arms)) * ready.plan.repeat
    with files.telling(), progress("Load", total, "drive" if total == 1 else "drives") as advance:
        for repeat in range(ready.plan.repeat):
            if repeat and beside.between is not None:
                await beside.between()
            place = 0
            for group in groups:
                drives = driven_slices(
                    group, ready, arms, turns, repeat, beside.measured(), beside.watch, beside.loader
                )
                async with aclosing(drives):
                    async for part in drives:
                        await in_thread(files.keep, part)
                        slices.append(replace(part, place=place))
                        place += 1
                        advance(1, sum(sample.error is not None for sample in part.loaded.samples))
    return slices
