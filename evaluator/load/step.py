"""Runs a load plan over the pipelines of an experiment and leaves `load/` and load.json in the run's folder.

Where the plan asks for the capacity, capacity.json comes after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from evaluator.arms import Arm
from evaluator.cached_results import cache_remarks
from evaluator.gates import judge_gates
from evaluator.load.best_by_bound import best_at
from evaluator.load.calibration import Calibrate, calibration_of
from evaluator.load.capacity import FoundCapacity
from evaluator.load.capacity_report import CAPACITY, CapacityFile, capacity_report, multiple_rates
from evaluator.load.capacity_step import searched_capacity
from evaluator.load.histograms import write_hlog
from evaluator.load.memory_trend import memory_trends
from evaluator.load.page import write_page
from evaluator.load.point import LoadedPoint, drive, run_closed, run_point
from evaluator.load.process_watch import MEMORY, ProcessWatch
from evaluator.load.ratios import PercentileRatio, percentile_ratios
from evaluator.load.report import LoadPointReport, LoadReport, LoopKind, gated_point, point_report
from evaluator.load.samples import write_samples
from evaluator.load.trace import read_trace
from evaluator.load.traffic import LoadTarget, PlannedRequest, open_requests, slice_seed
from evaluator.load_plan import LoadPlan, TrafficStep
from evaluator.measured_processes import is_this_machine
from evaluator.progress import progress
from evaluator.quality import Grades
from evaluator.run_folder import RunFolder, writable
from evaluator.turn_orders import balanced_turns

LOAD = "load.json"
Pids = tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Traffic:
    """One kind of traffic, through each pipeline in turn or, as a trace, through several at once."""

    label: str  # as in the name of the files: `20`, `1.5x`, `inflight8`, `steps`, `trace`
    rate: float | None = None
    in_flight: int | None = None
    steps: tuple[TrafficStep, ...] = ()
    trace: tuple[PlannedRequest, ...] = ()

    @property
    def loop(self) -> LoopKind:
        """Whether requests are sent at planned times or after answers."""
        return "open" if self.in_flight is None else "closed"


@dataclass(frozen=True, slots=True)
class TimeSlice:
    """A drive and its place in the run."""

    loaded: LoadedPoint
    number: int
    repeat: int


async def run_load(
    folder: RunFolder,
    plan: LoadPlan,
    seed: int,
    target: LoadTarget,
    arms: Sequence[Arm],
    judgments: Grades,
    measured: Callable[[], Pids],
    between: Callable[[], Awaitable[None]] | None,
    costs: Mapping[str, float | None],
    watch: ProcessWatch,
    calibrate: Calibrate,
) -> LoadReport:
    """Drives every kind of traffic and writes its files. Raises EvaluationError for a trace that does not fit.

    `measured` names the processes of the system under test now; `between` is called before every repeat but the first.
    `costs`: CPU milliseconds a query, by pipeline, for the gates of points that `watch` does not measure.
    `calibrate` is called before and after the traffic.
    """
    kinds = planned_traffic(plan, target, [arm.name for arm in arms])

    ratios: list[PercentileRatio] = []

    async def driven(some: Sequence[Traffic], through: Sequence[Arm]) -> list[LoadPointReport]:
        slices: dict[str, list[TimeSlice]] = {traffic.label: [] for traffic in some}
        with progress("Load", len(some) * plan.repeat, "kinds of traffic") as advance:
            for repeat in range(plan.repeat):
                if repeat and between is not None:
                    await between()
                for traffic in some:
                    slices[traffic.label] += await _driven(
                        traffic, plan, target, through, seed, repeat, measured(), watch
                    )
                    advance(1)
        points = []
        for traffic in some:
            found, compared = await asyncio.to_thread(
                _write_points, folder, plan, traffic, slices[traffic.label], target, through, judgments, seed
            )
            points += found
            ratios.extend(compared)
        return points

    before = await calibrate()
    points = await driven(kinds, arms) if kinds else []
    timing_valid = all(point.timing_valid for point in points)
    gated = [gated_point(point, costs.get(point.pipeline)) for point in points]
    capacities = []
    for arm in arms if plan.capacity is not None else ():
        found = await searched_capacity(target, arm.name, plan, seed, measured())
        swept = [(multiple, await driven([traffic], [arm])) for multiple, traffic in multiples_of(found)]
        points += [point for _, through in swept for point in through]
        # Beyond the capacity the queue grows while it is measured, so that the later half takes longer in any case.
        timing_valid &= all(point.timing_valid for multiple, through in swept if multiple <= 1 for point in through)
        timing_valid &= found.outcome != "cannot tell"
        capacities.append(capacity_report(arm.name, found, [(multiple, one) for multiple, (one,) in swept]))
    readings = await watch.ended()
    calibration = calibration_of(before, await calibrate())
    files = [Path(name) for point in points for name in point.files.values()] + [MEMORY] * bool(readings)
    report = LoadReport(
        made_from=folder.hashes("experiment.json", "manifest.json", *files),
        plan=plan,
        seed=seed,
        caches=target.caches,
        points=tuple(points),
        ratios=tuple(ratios),
        gates=tuple(judge_gates(folder.experiment.gates, gated)),
        best_under=()
        if plan.best_under_ms is None
        else tuple(best_at(points, rate, plan.best_under_ms) for rate in plan.rates),
        memory=memory_trends(readings),
        calibration=calibration,
        timing_valid=timing_valid,
        remarks=tuple(_remarks(target, points)),
    )
    folder.write(LOAD, report)
    if capacities:
        folder.write(CAPACITY, CapacityFile(made_from=folder.hashes(LOAD), capacities=tuple(capacities)))
    await asyncio.to_thread(write_page, folder, report)
    return report


def multiples_of(found: FoundCapacity) -> list[tuple[float, Traffic]]:
    """Returns the traffic at multiples of a capacity."""
    return [(multiple, Traffic(f"{multiple:g}x", rate=rate)) for multiple, rate in multiple_rates(found)]


def _remarks(target: LoadTarget, points: Sequence[LoadPointReport]) -> Iterator[str]:
    if points and is_this_machine(target.url):
        cores = points[0].conditions[0].cores
        yield f"the generators share the {cores} cores of this machine with the system under test"
    yield from cache_remarks(target.caches, {point.pipeline: point.cached for point in points})


def planned_traffic(plan: LoadPlan, target: LoadTarget, pipelines: Sequence[str]) -> list[Traffic]:
    """Returns the kinds of traffic of a plan, in their order."""
    kinds = [Traffic(f"{rate:g}", rate=rate) for rate in plan.rates]
    if plan.steps:
        kinds.append(Traffic("steps", steps=plan.steps))
    if plan.trace is not None:
        kinds.append(Traffic("trace", trace=tuple(read_trace(Path(plan.trace), target.queries, pipelines))))
    kinds += [Traffic(f"inflight{number}", in_flight=number) for number in plan.in_flight]
    return kinds


async def _driven(
    traffic: Traffic,
    plan: LoadPlan,
    target: LoadTarget,
    arms: Sequence[Arm],
    seed: int,
    repeat: int,
    measured: Pids,
    watch: ProcessWatch,
) -> list[TimeSlice]:
    """Returns the drives of one kind of traffic: a trace as a whole, else the pipelines in balanced turns of slices."""
    if traffic.trace:
        mean = len(traffic.trace) / max(1.0, traffic.trace[-1].at_s)
        whole = drive(target, traffic.trace, plan, mean, measured=measured)
        return [TimeSlice(await watch.costed(whole), 0, repeat)]
    slices = []
    count = slice_count(traffic, plan, len(arms))
    for number, turn in zip(range(count), balanced_turns(len(arms), seed), strict=False):
        for at in turn:
            of_slice = slice_seed(seed, traffic.label, repeat, number)
            warmup_s = plan.warmup_seconds if number == 0 else 0.0
            part = _drive_slice(traffic, plan, target, arms[at].name, count, of_slice, warmup_s, measured)
            slices.append(TimeSlice(await watch.costed(part), number, repeat))
    return slices


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


def slice_count(traffic: Traffic, plan: LoadPlan, arms: int) -> int:
    """Returns into how many slices a point is cut. One pipeline takes no turns, and steps are not cut."""
    return 1 if arms == 1 or traffic.steps else max(1, round(plan.seconds / plan.slice_seconds))


def _write_points(
    folder: RunFolder,
    plan: LoadPlan,
    traffic: Traffic,
    slices: Sequence[TimeSlice],
    target: LoadTarget,
    arms: Sequence[Arm],
    judgments: Grades,
    seed: int,
) -> tuple[list[LoadPointReport], tuple[PercentileRatio, ...]]:
    points, measured = [], {}
    for arm in arms:
        mine = [one for one in slices if any(sample.pipeline == arm.name for sample in one.loaded.samples)]
        if not mine:  # a trace that does not ask it
            continue
        samples = [
            sample.model_copy(update={"slice": one.number, "repeat": one.repeat})
            for one in mine
            for sample in one.loaded.samples
            if sample.pipeline == arm.name
        ]
        paths = {
            "samples": folder.path / "load" / f"{arm.name}-{traffic.label}.jsonl",
            "histogram": folder.path / "load" / f"{arm.name}-{traffic.label}.hlog",
        }
        measured[arm.name] = [sample.counted_ms for sample in samples if sample.phase == "measured"]
        write_samples(writable(paths["samples"]), samples)
        write_hlog(paths["histogram"], mine[0].loaded.began, _on_one_clock(mine, arm.name))
        points.append(
            point_report(
                arm.name,
                arm.pipeline,
                traffic.label,
                [one.loaded for one in mine],
                samples,
                judgments,
                target.reranks[arm.name],
                target.words,
                loop=traffic.loop,
                rate=traffic.rate,
                in_flight=traffic.in_flight,
                seconds=_planned_seconds(traffic, plan) * plan.repeat,
                caches=target.caches,
                seed=seed,
                files={name: path.relative_to(folder.path).as_posix() for name, path in paths.items()},
            )
        )
    paired = traffic.loop == "open" and not traffic.trace
    return points, percentile_ratios(traffic.label, measured, seed) if paired else ()


def _planned_seconds(traffic: Traffic, plan: LoadPlan) -> float:
    if traffic.trace:
        return traffic.trace[-1].at_s or 1.0
    return sum(step.seconds for step in traffic.steps) or plan.seconds


def _on_one_clock(slices: Sequence[TimeSlice], pipeline: str) -> list[tuple[float, float]]:
    """Returns the measured requests of a pipeline: seconds since the first slice began, and counted milliseconds."""
    return [
        ((one.loaded.began - slices[0].loaded.began).total_seconds() + sample.planned_s, sample.counted_ms)
        for one in slices
        for sample in one.loaded.samples
        if sample.pipeline == pipeline and sample.phase == "measured"
    ]
