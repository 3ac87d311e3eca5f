"""Sends the traffic of an experiment's `load` and leaves `load/`, load.json and the page in the run's folder.

Where the plan asks for the capacity, capacity.json comes after load.json.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from evaluator.client.cached_results import cache_remarks
from evaluator.client.client import GatewayClient
from evaluator.experiments.gates import judge_gates
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.capacity import (
    CAPACITY,
    CapacityFile,
    CapacityReport,
    FoundCapacity,
    MeasuredRate,
    RateSample,
    capacity_report,
    find_capacity,
    multiple_rates,
)
from evaluator.load.load_report import LOAD, LoadReport, gated_point, unjudged_gates
from evaluator.load.page.load_page import write_page
from evaluator.load.points.best_under import QualityDifference, best_at, quality_differences
from evaluator.load.points.point_report import LoadPointReport, written_points
from evaluator.load.points.ratios import PercentileRatio
from evaluator.load.points.validity import cpu_shares, generator_faults, generator_figures, machine_remarks
from evaluator.load.sending.driven_traffic import (
    LoadSurroundings,
    PreparedLoad,
    SampleFiles,
    TimeSlice,
    driven_traffic,
    prepare_load,
)
from evaluator.load.sending.drives import LoadedPoint, run_point
from evaluator.load.sending.samples import read_samples
from evaluator.load.sending.traffic import LoadTarget, Traffic, planned_traffic, planned_work, too_few_requests
from evaluator.machine.measured_processes import measured_processes
from evaluator.machine.process_costs import NO_PROCESSES, process_reader
from evaluator.metrics.quality import Grades
from evaluator.progress import in_thread, say
from evaluator.runs.latency import percentile
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm
from evaluator.steps.pipeline_costs import costs_of
from evaluator.steps.prepared_run import keep_manifest

SEARCH = "search"  # in the name of the file of a search's requests


async def load_step(
    client: GatewayClient,
    folder: RunFolder,
    between: Callable[[], Awaitable[None]] | None = None,
    processes: Mapping[str, str] = NO_PROCESSES,
) -> LoadReport:
    """Drives the traffic of the experiment's `load`; writes `load/`, load.json and, unless there, manifest.json.

    `between`: called before every repeat but the first. `processes`: URLs by name, whose CPU time and memory are
    measured at every point.
    """
    with folder.locked():
        ready = await prepare_load(client, folder)
        keep_manifest(folder, ready.manifest)
        measured = partial(measured_processes, folder.runs, client.url)
        costs = {name: cost.cpu_ms for name, cost in costs_of(folder).pipelines.items()}
        async with process_reader(processes) as read:
            return await _run_load(folder, ready, LoadSurroundings(measured, between, read), costs)


async def _run_load(
    folder: RunFolder, ready: PreparedLoad, beside: LoadSurroundings, costs: Mapping[str, float | None]
) -> LoadReport:
    """Drives every kind of traffic and writes its files.

    `costs`: CPU milliseconds per query, by pipeline, for the gates of points whose processes are not read.
    """
    say(planned_work(ready.plan, len(ready.arms)))
    for sentence in too_few_requests(ready.plan):
        say(sentence)
    ratios: list[PercentileRatio] = []
    files = SampleFiles(folder)

    async def driven(kinds: Sequence[Traffic], arms: Sequence[Arm]) -> list[LoadPointReport]:
        slices = await driven_traffic(kinds, arms, ready, beside, files)
        points: list[LoadPointReport] = []
        for traffic in kinds:
            of_traffic, compared = await in_thread(written_points, folder, files, ready, traffic, slices, arms)
            points += of_traffic
            ratios.extend(compared)
        return points

    kinds = planned_traffic(ready.plan)
    points = await driven(kinds, ready.arms) if kinds else []
    timing_valid = all(point.timing_valid for point in points)
    baseline = folder.experiment.baseline_among([arm.name for arm in ready.arms])
    gated = [gated_point(point, costs.get(point.pipeline)) for point in points]
    capacities: list[CapacityReport] = []
    for arm in ready.arms if ready.plan.capacity is not None else ():
        with files.reporting():
            search = await searched_capacity(
                ready.target, arm.name, ready.plan, ready.seed, beside.measured(), files.keep
            )
        swept = [
            (multiple, await driven([Traffic(f"{multiple:g}x", rate=rate)], [arm]))
            for multiple, rate in multiple_rates(search)
        ]
        points += [point for _, at_multiple in swept for point in at_multiple]
        # Beyond the capacity the generators drop requests as planned; times below it have to be valid.
        timing_valid &= all(point.timing_valid for multiple, below in swept if multiple <= 1 for point in below)
        timing_valid &= search.outcome != "cannot tell"
        capacities.append(capacity_report(arm.name, search, [(multiple, point) for multiple, (point,) in swept]))
    differences = await in_thread(_quality_differences, folder, ready.plan, points, ready.judgments, ready.seed)
    sources = [Path(name) for point in points for name in point.files.values()]
    sources += [files.path(capacity.pipeline, SEARCH) for capacity in capacities]
    report = LoadReport(
        made_from=folder.hashes("experiment.json", "manifest.json", *sources),
        plan=ready.plan,
        seed=ready.seed,
        caches=ready.target.caches,
        points=tuple(points),
        ratios=tuple(ratios),
        gates=tuple(judge_gates(folder.experiment.gates, gated, baseline)),
        quality_differences=differences,
        best_under=()
        if ready.plan.best_under_ms is None
        else tuple(best_at(points, differences, rate, ready.plan.best_under_ms) for rate in ready.plan.rates),
        capacities=tuple(capacities),
        timing_valid=timing_valid,
        remarks=(
            *ready.manifest.counts.remarks,
            *machine_remarks([ready.target.url], [part for point in points for part in point.conditions]),
            *cache_remarks(ready.target.caches, {point.pipeline: point.cached for point in points}),
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


def _quality_differences(
    folder: RunFolder, plan: LoadPlan, points: Sequence[LoadPointReport], judgments: Grades, seed: int
) -> tuple[QualityDifference, ...]:
    differences: list[QualityDifference] = []
    for rate in (f"{rate:g}" for rate in plan.rates):
        samples = {
            point.pipeline: [
                sample for sample in read_samples(folder.path / point.files["samples"]) if sample.phase == "measured"
            ]
            for point in points
            if point.traffic == rate
        }
        differences += quality_differences(rate, samples, judgments, seed)
    return tuple(differences)


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
    assert capacity is not None  # the plan asks for a search
    looks = count()

    async def measure(rate: float, warmup_s: float, seconds: float, seed: str) -> RateSample:
        loaded = await run_point(
            target, pipeline, rate, seconds, plan, seed=load_seed, part=seed, warmup_seconds=warmup_s, measured=measured
        )
        await in_thread(keep, search_slice(pipeline, rate, loaded, next(looks)))
        return rate_sample(loaded)

    def report_rate(at: MeasuredRate) -> None:
        say(f"{pipeline} at {at.rate:g}/s: {at.outcome} ({at.over} of {at.requests} requests over the bound)")

    return await find_capacity(capacity, "capacity", measure, report_rate)


def search_slice(pipeline: str, rate: float, loaded: LoadedPoint, number: int) -> TimeSlice:
    """Returns a look at a rate as a slice of the search, whose samples hold the rate."""
    samples = tuple(sample.model_copy(update={"rate": rate}) for sample in loaded.samples)
    return TimeSlice.labelled(Traffic(SEARCH, rate=rate), pipeline, replace(loaded, samples=samples), number, 0)


def rate_sample(loaded: LoadedPoint) -> RateSample:
    """Returns the sample of a drive that the search judges. Dropped requests count as lost."""
    samples = [sample for sample in loaded.samples if sample.phase == "measured"]
    counted = [sample.counted_ms for sample in samples]
    lags = [sample.send_lag_ms for sample in samples if sample.send_lag_ms is not None]
    p50_ms = percentile(sorted(counted), 0.5) if counted else None
    generators = generator_figures(cpu_shares([loaded.generators]), lags, real_time=loaded.real_time)
    # Times count from the planned moment: a generator that other work delays lengthens them too.
    faults = () if loaded.disturbed else tuple(generator_faults(generators, p50_ms, dropped=0))
    return RateSample(
        counted_ms=counted,
        lost=[sample.outcome != "answered" or bool(sample.degraded) for sample in samples],
        faults=faults,
        disturbed=[sample.disturbed for sample in samples],
    )
