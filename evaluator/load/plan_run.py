"""Runs a load plan over the pipelines of an experiment and leaves `load/` and load.json in the run's folder.

Where the plan asks for the capacity, capacity.json comes after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from evaluator.client.cached_results import cache_remarks
from evaluator.experiments.gates import judge_gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.capacity.report import CAPACITY, CapacityFile, capacity_report, multiple_rates
from evaluator.load.capacity.search import CapacityReport
from evaluator.load.capacity.step import SEARCH, searched_capacity
from evaluator.load.page.load_page import write_page
from evaluator.load.points.best_under import best_at
from evaluator.load.points.group_points import group_points
from evaluator.load.points.point_report import LoadPointReport
from evaluator.load.points.quality import QualityDifference, quality_differences
from evaluator.load.report import LOAD, LoadReport, gated_point, unjudged_gates
from evaluator.load.sending.driven_traffic import LoadSurroundings, driven_traffic
from evaluator.load.sending.kinds import Traffic, planned_traffic
from evaluator.load.sending.planned_work import planned_work, too_few_requests
from evaluator.load.sending.prepared_load import PreparedLoad
from evaluator.load.sending.process_watch import MEMORY
from evaluator.load.sending.sample_files import SampleFiles
from evaluator.load.sending.samples import read_samples
from evaluator.load.sending.traffic import LoadTarget
from evaluator.load.statistics.memory_trend import memory_trends
from evaluator.load.statistics.ratios import PercentileRatio
from evaluator.load.statistics.validity import machine_remarks
from evaluator.metrics.quality import Grades
from evaluator.progress import say
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm
from evaluator.thread_work import in_thread


async def run_load(
    folder: RunFolder,
    ready: PreparedLoad,
    beside: LoadSurroundings,
    costs: Mapping[str, float | None],
) -> LoadReport:
    """Drives every kind of traffic and writes its files.

    `costs`: CPU milliseconds a query, by pipeline, for the gates of points whose processes are not watched.
    """
    groups = planned_traffic(ready.plan)
    say(planned_work(ready.plan, groups, len(ready.arms)))
    for sentence in too_few_requests(ready.plan):
        say(sentence)
    ratios: list[PercentileRatio] = []
    files = SampleFiles(folder)

    async def driven(some: Sequence[Sequence[Traffic]], through: Sequence[Arm]) -> list[LoadPointReport]:
        slices = await driven_traffic(some, through, ready, beside, files)
        points: list[LoadPointReport] = []
        for group in some:
            found, compared = await in_thread(
                group_points, folder, files, ready, group, slices, through, beside.between is not None
            )
            points += found
            ratios.extend(compared)
        return points

    points = await driven(groups, ready.arms) if groups else []
    timing_valid = all(point.timing_valid for point in points)
    gated = [gated_point(point, costs.get(point.pipeline)) for point in points]
    capacities: list[CapacityReport] = []
    for arm in ready.arms if ready.plan.capacity is not None else ():
        with files.telling():
            found = await searched_capacity(
                ready.target, arm.name, ready.plan, ready.seed, beside.measured(), files.keep
            )
        swept = [
            (multiple, await driven([[Traffic(f"{multiple:g}x", rate=rate)]], [arm]))
            for multiple, rate in multiple_rates(found)
        ]
        points += [point for _, through in swept for point in through]
        # Beyond the capacity the queue grows while it is measured, so that the later half takes longer in any case.
        timing_valid &= all(point.timing_valid for multiple, through in swept if multiple <= 1 for point in through)
        timing_valid &= found.outcome != "cannot tell"
        capacities.append(capacity_report(arm.name, found, [(multiple, one) for multiple, (one,) in swept]))
    readings = await beside.watch.ended()
    differences = await in_thread(_quality_differences, folder, ready.plan, points, ready.judgments, ready.seed)
    sources = [Path(name) for point in points for name in point.files.values()] + [MEMORY] * bool(readings)
    sources += [files.path(one.pipeline, SEARCH) for one in capacities]
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
        capacities=tuple(capacities),
        memory=memory_trends(readings),
        timing_valid=timing_valid,
        remarks=(
            *ready.manifest.counts.remarks,
            *_remarks(ready.target, points),
            *unjudged_gates(folder.experiment.gates, ready.plan),
        ),
    )
    folder.write(LOAD, report)
    if capacities:
        folder.write(
            CAPACITY, CapacityFile(made_from=folder.hashes("manifest.json", LOAD), capacities=tuple(capacities))
        )
    await in_thread(write_page, folder, report)
    return report


def _remarks(target: LoadTarget, points: Sequence[LoadPointReport]) -> Iterator[str]:
    conditions = [one for point in points for one in point.conditions]
    yield from machine_remarks([target.url], conditions, loading=any(point.loading for point in points))
    yield from cache_remarks(target.caches, {point.pipeline: point.cached for point in points})


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
