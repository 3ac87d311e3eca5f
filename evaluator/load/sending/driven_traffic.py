"""Drives all traffic of a plan slice by slice, the pipelines in turn, and writes each slice's requests when it ends.

Leaves the figures of the slices to points.
"""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

from evaluator.client.client import GatewayClient
from evaluator.errors import EvaluationError
from evaluator.experiments.load_plan import LoadPlan
from evaluator.experiments.turn_orders import balanced_turns
from evaluator.load.sending.drives import LoadedPoint, drive, run_closed
from evaluator.load.sending.samples import write_samples
from evaluator.load.sending.traffic import LoadTarget, PlannedSlice, Traffic, load_target, open_slices, slice_count
from evaluator.machine.machine_conditions import quiet_within
from evaluator.machine.process_costs import Reader, costs_between
from evaluator.metrics.quality import Grades
from evaluator.progress import in_thread, progress, say
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder, writable
from evaluator.steps.arms import Arm
from evaluator.steps.prepared_run import prepare_run

Pids = tuple[int, ...] | None


class PreparedLoad(NamedTuple):
    """What a load needs of the experiment and the gateway."""

    plan: LoadPlan
    seed: int
    arms: tuple[Arm, ...]
    target: LoadTarget
    judgments: Grades
    manifest: Manifest


async def prepare_load(client: GatewayClient, folder: RunFolder) -> PreparedLoad:
    """Checks that the gateway has corpus and pipelines, and builds the requests. Sends no traffic."""
    experiment = folder.experiment
    if experiment.load is None:
        raise EvaluationError(f"{folder.path}: the experiment has no `load`; give one, or --rate")
    ready = await prepare_run(client, folder)
    queries = ready.queries.measured
    target = load_target(client.url, experiment, ready.arms, ready.dataset, queries, experiment.load)
    return PreparedLoad(experiment.load, experiment.seed, ready.arms, target, ready.dataset.judgments, ready.manifest)


@dataclass(frozen=True, slots=True)
class LoadSurroundings:
    """What happens beside the requests of a load."""

    measured: Callable[[], Pids]  # the processes of the system under test now
    between: Callable[[], Awaitable[None]] | None  # called before every repeat but the first
    read: Reader  # reads CPU time and memory of the named processes


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A drive and its place in the run."""

    traffic: str  # its name
    pipeline: str  # that was asked, or would have been if a request had been planned
    loaded: LoadedPoint
    number: int
    repeat: int

    @classmethod
    def labelled(cls, traffic: Traffic, pipeline: str, loaded: LoadedPoint, number: int, repeat: int) -> "TimeSlice":
        """Returns a slice whose samples hold their place in the run."""
        samples = tuple(sample.model_copy(update={"slice": number, "repeat": repeat}) for sample in loaded.samples)
        return cls(traffic.name, pipeline, replace(loaded, samples=samples), number, repeat)


class SampleFiles:
    """Writes `load/<pipeline>-<traffic>.jsonl` of one load, anew, slice by slice, so that no later fault loses them."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder.path / "load"
        self._begun: set[Path] = set()
        self._last: TimeSlice | None = None
        self._drives = 0

    def path(self, pipeline: str, traffic: str) -> Path:
        """Returns the file of a point. `traffic`: its name."""
        return self._folder / f"{pipeline}-{traffic}.jsonl"

    def keep(self, part: TimeSlice) -> None:
        """Appends the requests of a slice. The first slice of a point replaces the file of an earlier load."""
        path = writable(self.path(part.pipeline, part.traffic))
        write_samples(path, part.loaded.samples, append=path in self._begun)
        self._begun.add(path)
        self._last = part
        self._drives += 1

    @contextmanager
    def reporting(self, missing: str = "load.json") -> Iterator[None]:
        """Prints which files are complete, and which is missing, when the block ends with an error."""
        whole = False
        try:
            yield
            whole = True
        finally:
            if not whole and self._last is not None:
                last = f"{self._last.pipeline} at {self._last.traffic}, repeat {self._last.repeat + 1}"
                say(
                    f"the load ended early, without {missing}: {self._folder}/*.jsonl hold what was sent "
                    f"(drives: {self._drives}, the last one of {last})"
                )


async def driven_traffic(
    kinds: Sequence[Traffic], arms: Sequence[Arm], ready: PreparedLoad, beside: LoadSurroundings, files: SampleFiles
) -> list[TimeSlice]:
    """Drives every kind of traffic in every repeat; returns the slices in the order in which they were sent."""
    slices: list[TimeSlice] = []
    # One order for everything: begun anew, each pipeline would follow the same one at every rate and repeat.
    turns = balanced_turns(len(arms), ready.seed)
    count = slice_count(ready.plan, len(arms))
    total = len(kinds) * len(arms) * count * ready.plan.repeat
    with files.reporting(), progress("Load", total, "drive" if total == 1 else "drives") as advance:
        for repeat in range(ready.plan.repeat):
            if repeat and beside.between is not None:
                await beside.between()
            for traffic in kinds:
                measured = beside.measured()
                planned = _planned_slices(traffic, ready, count, repeat)
                for number, (planned_slice, turn) in enumerate(zip(planned, turns, strict=False)):
                    for at in turn:
                        pipeline, part = arms[at].name, f"{repeat} {number}"
                        driven = partial(
                            _drive_slice, traffic, ready, pipeline, planned_slice, part, count, measured, beside.read
                        )
                        # Caches that are on would answer what is sent again.
                        loaded = await (driven() if ready.target.caches else calmest(driven, measured))
                        slices.append(TimeSlice.labelled(traffic, pipeline, loaded, number, repeat))
                        await in_thread(files.keep, slices[-1])
                        advance(1, sum(sample.error is not None for sample in loaded.samples))
    return slices


def _planned_slices(traffic: Traffic, ready: PreparedLoad, count: int, repeat: int) -> Iterator[PlannedSlice]:
    """Yields the plan of each slice, the same for all pipelines; of a closed loop the warm-up alone."""
    plan = ready.plan
    if traffic.in_flight is not None:
        return (PlannedSlice(0.0 if number else plan.warmup_seconds, []) for number in range(count))
    rate, seconds = traffic.rate or 0.0, plan.seconds / count
    return open_slices(ready.target.queries, rate, seconds, count, plan, ready.seed, repeat)


async def _drive_slice(
    traffic: Traffic,
    ready: PreparedLoad,
    pipeline: str,
    planned: PlannedSlice,
    part: str,
    count: int,
    measured: Pids,
    read: Reader,
) -> LoadedPoint:
    """Drives one pipeline in one slice, and adds what it cost each process, from its start to its last answer.

    `part`: what a closed loop draws its queries as; its requests have no plan.
    """
    target, plan, warmup_s = ready.target, ready.plan, planned.warmup_s
    before = await read()
    if traffic.in_flight is not None:
        seconds = plan.seconds / count
        loaded = await run_closed(
            target, pipeline, traffic.in_flight, seconds, plan,
            seed=ready.seed, part=part, warmup_seconds=warmup_s, measured=measured,
        )  # fmt: skip
    else:
        requests, rate = planned.through(pipeline), traffic.rate or 0.0
        loaded = await drive(target, requests, plan, rate, warmup_seconds=warmup_s, measured=measured)
    return replace(loaded, costs=costs_between(before, await read()))


async def calmest(sending: Callable[[], Awaitable[LoadedPoint]], measured: Pids) -> LoadedPoint:
    """Sends a slice, and again while other work disturbs it; returns the drive with the least share of disturbed ones.

    Each further one begins when a window was not disturbed. All together take three times as long as one at most.
    """
    began_s = time.monotonic()
    best = await sending()
    took_s = time.monotonic() - began_s
    while best.disturbed and (left_s := 3 * took_s - (time.monotonic() - began_s)) >= took_s:
        if not await quiet_within(left_s - took_s, measured):
            break
        best = min(best, await sending(), key=lambda loaded: loaded.disturbed)
    return best
