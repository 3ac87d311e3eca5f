"""Runs a load plan over the pipelines of an experiment and leaves `load/` and load.json in the run's folder.

Where the plan asks for the capacity, capacity.json comes after it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from evaluator.arms import Arm
from evaluator.cached_results import cache_remarks
from evaluator.gates import judge_gates
from evaluator.load.best_by_bound import best_at
from evaluator.load.calibration import Calibrate, calibration_of
from evaluator.load.capacity import FoundCapacity
from evaluator.load.capacity_report import CAPACITY, CapacityFile, capacity_report, multiple_rates
from evaluator.load.capacity_step import searched_capacity
from evaluator.load.corpus_loader import CorpusLoader
from evaluator.load.enough_requests import too_few_requests
from evaluator.load.first_answers import first_answers
from evaluator.load.histograms import write_hlog
from evaluator.load.kinds import Traffic, planned_traffic
from evaluator.load.memory_trend import memory_trends
from evaluator.load.page import write_page
from evaluator.load.planned_work import planned_work
from evaluator.load.prepared_load import PreparedLoad
from evaluator.load.process_watch import MEMORY, ProcessWatch
from evaluator.load.quality_differences import QualityDifference, quality_differences
from evaluator.load.ratios import PercentileRatio, Slices, loading_ratios, percentile_ratios
from evaluator.load.report import LoadPointReport, LoadReport, gated_point, point_report, unjudged_gates
from evaluator.load.sample_files import SampleFiles
from evaluator.load.samples import counted_slices, read_samples
from evaluator.load.step_figures import step_figures
from evaluator.load.time_slices import Pids, TimeSlice, driven_slices
from evaluator.load.traffic import LoadTarget
from evaluator.load_plan import LoadPlan
from evaluator.machine_conditions import unchecked_foreign
from evaluator.measured_processes import is_this_machine
from evaluator.progress import progress, say
from evaluator.quality import Grades
from evaluator.run_folder import RunFolder
from evaluator.turn_orders import balanced_turns

LOAD = "load.json"


async def run_load(
    folder: RunFolder,
    ready: PreparedLoad,
    measured: Callable[[], Pids],
    between: Callable[[], Awaitable[None]] | None,
    costs: Mapping[str, float | None],
    watch: ProcessWatch,
    calibrate: Calibrate,
    loader: CorpusLoader | None = None,
) -> LoadReport:
    """Drives every kind of traffic and writes its files. Raises EvaluationError for a trace that does not fit.

    `measured` names the processes of the system under test now; `between` is called before every repeat but the first.
    `costs`: CPU milliseconds a query, by pipeline, for the gates of points that `watch` does not measure.
    `calibrate` is called before and after the traffic. `loader`: for a plan that searches while loading.
    """
    groups = planned_traffic(ready.plan, ready.target, [arm.name for arm in ready.arms])
    say(planned_work(ready.plan, groups, len(ready.arms)))
    for sentence in too_few_requests(ready.plan):
        say(sentence)
    ratios: list[PercentileRatio] = []
    files = SampleFiles(folder)

    async def driven(some: Sequence[Sequence[Traffic]], through: Sequence[Arm]) -> list[LoadPointReport]:
        slices: list[TimeSlice] = []
        # One order for everything: begun anew, each pipeline would follow the same one at every rate and repeat.
        turns = balanced_turns(len(through), ready.seed)
        total = sum(map(len, some)) * ready.plan.repeat
        with (
            files.telling(),
            progress("Load", total, "kind of traffic" if total == 1 else "kinds of traffic") as advance,
        ):
            for repeat in range(ready.plan.repeat):
                if repeat and between is not None:
                    await between()
                place = 0
                for group in some:
                    drives = driven_slices(group, ready, through, turns, repeat, measured(), watch, loader)
                    async with aclosing(drives):
                        async for part in drives:
                            await asyncio.to_thread(files.keep, part)
                            slices.append(replace(part, place=place))
                            place += 1
                    advance(len(group))
        points = []
        for group in some:
            times = {}
            for traffic in group:
                mine = [one for one in slices if one.traffic == traffic.label]
                found, times[traffic.label] = await asyncio.to_thread(
                    _write_points, folder, files, ready, traffic, mine, through, between is not None
                )
                points += found
            ratios.extend(await asyncio.to_thread(_ratios, group, times, points, ready.seed))
        return points

    before = await calibrate()
    points = await driven(groups, ready.arms) if groups else []
    timing_valid = all(point.timing_valid for point in points)
    gated = [gated_point(point, costs.get(point.pipeline)) for point in points]
    capacities = []
    for arm in ready.arms if ready.plan.capacity is not None else ():
        found = await searched_capacity(ready.target, arm.name, ready.plan, ready.seed, measured())
        swept = [(multiple, await driven([[traffic]], [arm])) for multiple, traffic in multiples_of(found)]
        points += [point for _, through in swept for point in through]
        # Beyond the capacity the queue grows while it is measured, so that the later half takes longer in any case.
        timing_valid &= all(point.timing_valid for multiple, through in swept if multiple <= 1 for point in through)
        timing_valid &= found.outcome != "cannot tell"
        capacities.append(capacity_report(arm.name, found, [(multiple, one) for multiple, (one,) in swept]))
    readings = await watch.ended()
    calibration = calibration_of(before, await calibrate())
    differences = await asyncio.to_thread(_quality_differences, folder, ready.plan, points, ready.judgments, ready.seed)
    sources = [Path(name) for point in points for name in point.files.values()] + [MEMORY] * bool(readings)
    report = LoadReport(
        made_from=folder.hashes("experiment.json", "manifest.json", *sources),
        plan=ready.plan,
        seed=ready.seed,
        caches=ready.target.caches,
        points=tuple(points),
        ratios=tuple(ratios),
        gates=tuple(judge_gates(folder.experiment.gates, gated)),
        quality_differences=differences,
        best_under=()
        if ready.plan.best_under_ms is None
        else tuple(best_at(points, differences, rate, ready.plan.best_under_ms) for rate in ready.plan.rates),
        memory=memory_trends(readings),
        calibration=calibration,
        timing_valid=timing_valid,
        remarks=(*_remarks(ready.target, points), *unjudged_gates(folder.experiment.gates, ready.plan)),
    )
    folder.write(LOAD, report)
    if capacities:
        folder.write(
            CAPACITY, CapacityFile(made_from=folder.hashes("manifest.json", LOAD), capacities=tuple(capacities))
        )
    await asyncio.to_thread(write_page, folder, report, capacities)
    return report


def multiples_of(found: FoundCapacity) -> list[tuple[float, Traffic]]:
    """Returns the traffic at multiples of a capacity."""
    return [(multiple, Traffic(f"{multiple:g}x", rate=rate)) for multiple, rate in multiple_rates(found)]


def _remarks(target: LoadTarget, points: Sequence[LoadPointReport]) -> Iterator[str]:
    if points and is_this_machine(target.url):
        cores = points[0].conditions[0].cores
        loader = " and the loading evaluator" if any(point.loading for point in points) else ""
        yield f"the generators{loader} share the {cores} cores of this machine with the system under test"
    yield from unchecked_foreign(one for point in points for one in point.conditions)
    yield from cache_remarks(target.caches, {point.pipeline: point.cached for point in points})


def _write_points(
    folder: RunFolder,
    files: SampleFiles,
    ready: PreparedLoad,
    traffic: Traffic,
    slices: Sequence[TimeSlice],
    arms: Sequence[Arm],
    restarted: bool,
) -> tuple[list[LoadPointReport], dict[str, list[list[float]]]]:
    """Returns the points of one kind of traffic, and the counted milliseconds of requests by pipeline and slice."""
    points, measured = [], {}
    for arm in arms:
        mine = [one for one in slices if arm.name in one.pipelines]
        if not mine:  # a trace that does not ask it
            continue
        samples = [sample for one in mine for sample in one.loaded.samples if sample.pipeline == arm.name]
        paths = {
            "samples": files.path(arm.name, traffic.label),
            "histogram": files.path(arm.name, traffic.label).with_suffix(".hlog"),
        }
        measured[arm.name] = counted_slices(sample for sample in samples if sample.phase == "measured")
        write_hlog(paths["histogram"], mine[0].loaded.began, _on_one_clock(mine, arm.name))
        points.append(
            point_report(
                arm.name,
                arm.pipeline,
                traffic.label,
                [one.loaded for one in mine],
                samples,
                ready.judgments,
                ready.target.reranks[arm.name],
                ready.target.words,
                loop=traffic.loop,
                rate=traffic.rate,
                in_flight=traffic.in_flight,
                seconds=_planned_seconds(traffic, ready.plan) * ready.plan.repeat,
                top=ready.target.top,
                caches=ready.target.caches,
                first=first_answers(mine, arm.name, between=restarted),
                by_step=step_figures(
                    traffic.steps, ready.plan.warmup_seconds, ready.plan.repeat, samples, ready.judgments
                ),
                files={name: path.relative_to(folder.path).as_posix() for name, path in paths.items()},
            )
        )
    return points, measured


def _ratios(
    group: Sequence[Traffic],
    times_ms: Mapping[str, Mapping[str, Slices]],
    points: Sequence[LoadPointReport],
    seed: int,
) -> list[PercentileRatio]:
    """Compares pipelines within a kind of traffic, then each pipeline while loading and idle. `times_ms`: by label."""
    doubtful = {
        traffic.label: {point.pipeline for point in points if point.traffic == traffic.label and not point.timing_valid}
        for traffic in group
    }
    found: list[PercentileRatio] = []
    for traffic in group:
        if traffic.loop == "open" and not traffic.trace:
            found += percentile_ratios(traffic.label, times_ms[traffic.label], seed, doubtful[traffic.label])
    if len(group) == 2:
        idle, loading = (times_ms[traffic.label] for traffic in group)
        found += loading_ratios(group[0].label, idle, loading, seed, set().union(*doubtful.values()))
    return found


def _quality_differences(
    folder: RunFolder, plan: LoadPlan, points: Sequence[LoadPointReport], judgments: Grades, seed: int
) -> tuple[QualityDifference, ...]:
    found: list[QualityDifference] = []
    for rate in (f"{rate:g}" for rate in plan.rates):
        samples = {
            point.pipeline: [
                one for one in read_samples(folder.path / point.files["samples"]) if one.phase == "measured"
            ]
            for point in points
            if point.traffic == rate
        }
        found += quality_differences(rate, samples, judgments, seed)
    return tuple(found)


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
