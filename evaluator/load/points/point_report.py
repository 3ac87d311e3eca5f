"""Builds the points of load.json from their slices: figures, costs and validity of a pipeline in one kind of traffic.

Sends nothing; writes only the histograms beside the samples.
"""

from collections.abc import Mapping, Sequence

from pydantic import FiniteFloat, model_validator

from evaluator.client.cached_results import CacheUse, cache_faults, sum_cached_results
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.points.figures import (
    AnswerQuality,
    LoadPercentiles,
    RequestCounts,
    answer_quality,
    load_percentiles,
    mean_ndcg,
    request_counts,
    write_hlog,
)
from evaluator.load.points.ratios import PercentileRatio, RepeatedFigure, percentile_ratios, repeated_figure
from evaluator.load.points.validity import GeneratorFigures, cpu_shares, generator_faults, generator_figures
from evaluator.load.sending.driven_traffic import PreparedLoad, SampleFiles, TimeSlice
from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.load_loop import LoopKind
from evaluator.load.sending.samples import DROPPED, LoadSample, counted_slices, disturbed_share
from evaluator.load.sending.traffic import LoadTarget, Traffic
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.machine.process_costs import PipelineCost, mean_cost, summed_costs
from evaluator.metrics.quality import Grades
from evaluator.runs import breakdown
from evaluator.runs.latency import carry_validity
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.arms import Arm
from services.contracts.base import Count, Wire


class LoadPointReport(Wire):
    """Figures of a pipeline in one kind of traffic. A request without an answer counts with at least the deadline."""

    _carries_validity = model_validator(mode="wrap")(carry_validity)

    pipeline: str
    fingerprint: str
    loop: LoopKind
    traffic: str  # the rate, or how many in flight, as in the files
    rate: FiniteFloat | None  # planned requests per second; null: the loop is closed
    in_flight: Count | None  # of a closed loop
    seconds: FiniteFloat  # of planned sending, without the warm-up
    counts: RequestCounts
    offered: FiniteFloat  # requests per second
    goodput: FiniteFloat  # answers in time per second; of a closed loop those that ended within its seconds
    latency_ms: LoadPercentiles  # from the planned send time to the last byte
    service_ms: LoadPercentiles  # from sending to the last byte, of answered requests
    refusal_ms: LoadPercentiles | None = None  # from sending to the last byte of a 429; null: nothing was refused
    quality: AnswerQuality
    generators: GeneratorFigures
    conditions: tuple[MachineConditions, ...]  # of each slice
    cached: dict[str, CacheUse]  # by backend that looked results up in a cache
    # They are of all answers, late ones too, as `PipelineReport` has them.
    stages_ms: dict[str, breakdown.StageTime] = {}
    gap_ms: breakdown.StageTime | None = None
    path_ms: dict[str, FiniteFloat] = {}  # by piece; they add up to the mean latency (runs/breakdown.py)
    slowest: tuple[breakdown.SlowAnswer, ...] = ()
    failed: tuple[breakdown.FailedRequest, ...] = ()  # the first of each kind of error
    cost: PipelineCost | None = None  # of one request; null: no process was named
    timing_valid: bool
    timing_faults: tuple[str, ...]
    # By figure (p50, p95, p99, nDCG@10, goodput): its values in the repeats; empty where nothing was repeated.
    repeats: dict[str, RepeatedFigure] = {}
    warmup: Count  # labelled requests, in no figure
    files: dict[str, str]  # `samples` and `histogram`, relative to the run's folder

    @property
    def traffic_in_words(self) -> str:
        if self.in_flight is not None:
            return f"{self.in_flight} in flight (capacity)"
        if self.rate is None:
            return self.traffic
        return f"{self.rate:g}/s"


def point_report(
    arm: Arm,
    traffic: Traffic,
    slices: Sequence[TimeSlice],
    plan: LoadPlan,
    target: LoadTarget,
    judgments: Grades,
    files: Mapping[str, str],
) -> LoadPointReport:
    """Computes the figures of a pipeline in one kind of traffic, from its slices."""
    loaded = [part.loaded for part in slices]
    samples = [sample for part in loaded for sample in part.samples]
    seconds = plan.seconds * plan.repeat
    measured = [sample for sample in samples if sample.phase == "measured"]
    answers = [sample for sample in measured if sample.error is None]
    counts = request_counts(measured)
    disturbed = disturbed_share(measured)
    latency = load_percentiles([sample.counted_ms for sample in measured], disturbed)
    service = [sample.service_ms for sample in measured if sample.service_ms is not None]
    refusals = [sample.refused_ms for sample in measured if sample.refused_ms is not None]
    lags = [sample.send_lag_ms for sample in measured if sample.send_lag_ms is not None]
    shares = cpu_shares([part.generators for part in loaded])
    generators = generator_figures(shares, lags, real_time=all(part.real_time for part in loaded))
    conditions = tuple(part.conditions for part in loaded)
    cached = sum_cached_results(sample.cached for sample in measured)
    faults = (
        *([] if measured else [f"no request was {'planned' if traffic.loop == 'open' else 'sent'}"]),
        *generator_faults(generators, latency.p50.unchecked_ms, counts.dropped),
        *cache_faults(target.caches, {arm.name: cached}),
    )
    tail = traffic.loop == "open"
    return LoadPointReport(
        pipeline=arm.name,
        fingerprint=arm.pipeline.fingerprint,
        loop=traffic.loop,
        traffic=traffic.name,
        rate=traffic.rate,
        in_flight=traffic.in_flight,
        seconds=seconds,
        counts=counts,
        offered=counts.requests / seconds,
        goodput=_goodput(samples, seconds),
        latency_ms=latency if tail else latency.without_tail(),
        service_ms=_percentiles(service, disturbed, tail=tail),
        refusal_ms=_percentiles(refusals, disturbed, tail=tail) if refusals else None,
        quality=answer_quality(judgments, measured, target.reranks[arm.name], target.top),
        generators=generators,
        conditions=conditions,
        cached=cached,
        stages_ms=breakdown.stage_times(answers, [item.id for item in arm.pipeline.identified]),
        gap_ms=breakdown.gap_time(answers),
        path_ms=breakdown.mean_path(answers, arm.pipeline.identified),
        slowest=breakdown.slowest_answers(answers),
        failed=breakdown.failed_requests([sample for sample in measured if sample.outcome == "failed"]),
        cost=point_cost(loaded),
        timing_valid=not faults and latency.p50.holds,
        timing_faults=faults,
        repeats=_repeats(samples, judgments, seconds, tail=tail),
        warmup=len(samples) - len(measured),
        files=dict(files),
    )


def _percentiles(values_ms: Sequence[float], disturbed: float, *, tail: bool) -> LoadPercentiles:
    times = load_percentiles(values_ms, disturbed)
    return times if tail else times.without_tail()


def _goodput(samples: Sequence[LoadSample], seconds: float) -> float:
    return sum(sample.in_goodput for sample in samples) / seconds


def _repeats(
    samples: Sequence[LoadSample], judgments: Grades, seconds: float, *, tail: bool
) -> dict[str, RepeatedFigure]:
    """Returns each figure over the repeats. `seconds`: of all of them together; `tail`: whether a p99 is reported."""
    runs: dict[int, list[LoadSample]] = {}
    for sample in samples:
        runs.setdefault(sample.repeat, []).append(sample)
    if len(runs) < 2:
        return {}
    values: dict[str, list[float | None]] = {"p50": [], "p95": [], "p99": [], "nDCG@10": [], "goodput": []}
    for sent in runs.values():
        run = [sample for sample in sent if sample.phase == "measured"]
        latency = load_percentiles([sample.counted_ms for sample in run])
        values["p50"].append(latency.p50.unchecked_ms)
        values["p95"].append(latency.p95.unchecked_ms)
        values["p99"].append(latency.p99.unchecked_ms if tail else None)
        values["nDCG@10"].append(mean_ndcg(judgments, run))
        values["goodput"].append(_goodput(sent, seconds / len(runs)))
    known = {name: [value for value in of_runs if value is not None] for name, of_runs in values.items()}
    return {name: repeated_figure(of_runs) for name, of_runs in known.items() if len(of_runs) == len(runs)}


def point_cost(slices: Sequence[LoadedPoint]) -> PipelineCost | None:
    """Returns the mean cost of a request over all slices; None where no process was named.

    Every request that was sent counts, those of the warm-up too: the readings stand around whole slices. So do the
    start of the generators (the processes are idle meanwhile) and the answer to a reading, once per slice.
    """
    if not all(part.costs for part in slices):
        return None
    samples = [sample for part in slices for sample in part.samples]
    sent = [sample for sample in samples if sample.error != DROPPED]
    lost = sum(sample.error is not None for sample in sent)
    seconds = sum(part.seconds for part in slices)
    return mean_cost(summed_costs([part.costs for part in slices]), len(sent), lost, seconds)


def missing_cpu(cost: PipelineCost) -> str:
    """Returns which processes have no CPU time, and why."""
    return "; ".join(f"{name}: {process.reason}" for name, process in cost.processes.items() if process.cpu_ms is None)


def written_points(
    folder: RunFolder,
    files: SampleFiles,
    ready: PreparedLoad,
    traffic: Traffic,
    slices: Sequence[TimeSlice],
    arms: Sequence[Arm],
) -> tuple[list[LoadPointReport], tuple[PercentileRatio, ...]]:
    """Returns the points of one kind of traffic and the ratios between them; writes histograms beside the samples."""
    points, times_ms = [], {}
    for arm in arms:
        own = [part for part in slices if part.traffic == traffic.name and part.pipeline == arm.name]
        samples = files.path(arm.name, traffic.name)
        paths = {"samples": samples, "histogram": samples.with_suffix(".hlog")}
        times_ms[arm.name] = counted_slices(
            sample for part in own for sample in part.loaded.samples if sample.phase == "measured"
        )
        write_hlog(paths["histogram"], own[0].loaded.began, on_one_clock(own))
        names = {name: path.relative_to(folder.path).as_posix() for name, path in paths.items()}
        points.append(point_report(arm, traffic, own, ready.plan, ready.target, ready.judgments, names))
    if traffic.loop == "closed":
        return points, ()
    # Other work meets both sides of a ratio alike.
    doubtful = {point.pipeline for point in points if point.timing_faults}
    return points, percentile_ratios(traffic.name, times_ms, ready.seed, doubtful)


def on_one_clock(slices: Sequence[TimeSlice]) -> list[tuple[float, float]]:
    """Returns the measured requests: seconds since the first slice began, and counted milliseconds."""
    return [
        (part.loaded.began_s - slices[0].loaded.began_s + sample.planned_s, sample.counted_ms)
        for part in slices
        for sample in part.loaded.samples
        if sample.phase == "measured"
    ]
