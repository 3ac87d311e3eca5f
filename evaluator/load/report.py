"""Defines load.json and builds its figures from samples. Pure."""

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.breakdown import SlowAnswer, StageTime, gap_time, slowest_answers, stage_times
from evaluator.cached_results import CacheUse, cache_faults, sum_cached_results
from evaluator.critical_path import mean_path
from evaluator.load.figures import LoadPercentiles, RequestCounts, load_percentiles, request_counts
from evaluator.load.point import LoadedPoint
from evaluator.load.quality import AnswerQuality, answer_quality
from evaluator.load.samples import LoadSample
from evaluator.load.validity import GeneratorFigures, HalfMedians, generator_figures, half_medians, timing_faults
from evaluator.load_plan import LoadPlan
from evaluator.machine_conditions import MachineConditions
from evaluator.quality import Grades
from evaluator.run_folder import StepFile
from services.contracts.base import Count, Wire
from services.contracts.pipelines import Pipeline

LoopKind = Literal["open", "closed"]


class LoadPointReport(Wire):
    """Figures of a pipeline in one kind of traffic. A request without an answer counts with at least the deadline."""

    pipeline: str
    fingerprint: str
    loop: LoopKind
    traffic: str  # the rate, `steps`, `trace`, or how many in flight, as in the name of the files
    rate: FiniteFloat | None  # planned requests a second; null: it changes, or the loop is closed
    in_flight: Count | None  # of a closed loop
    seconds: FiniteFloat  # of planned sending, without the warm-up
    counts: RequestCounts
    offered: FiniteFloat  # requests a second
    goodput: FiniteFloat  # answers in time a second
    latency_ms: LoadPercentiles  # from the planned send time to the last byte
    service_ms: LoadPercentiles  # from sending to the last byte, of answered requests
    quality: AnswerQuality
    generators: GeneratorFigures
    halves: HalfMedians | None  # null: too few requests, or a rate that changes by plan
    conditions: tuple[MachineConditions, ...]  # of each slice
    cached: dict[str, CacheUse]  # by backend that looked results up in a cache
    # Of the answers, late ones too, as `PipelineReport` has them.
    stages_ms: dict[str, StageTime] = {}
    gap_ms: StageTime | None = None
    path_ms: dict[str, FiniteFloat] = {}  # by piece; they add up to the mean latency (critical_path.py)
    slowest: tuple[SlowAnswer, ...] = ()
    timing_valid: bool
    timing_faults: tuple[str, ...]
    warmup: Count  # labelled requests, in no figure
    files: dict[str, str]  # `samples` and `histogram`, relative to the run's folder


class LoadReport(StepFile):
    """load.json, the last file of the step."""

    made_from: dict[str, str]
    plan: LoadPlan
    seed: Count
    points: tuple[LoadPointReport, ...]
    timing_valid: bool
    remarks: tuple[str, ...]  # what a reader should know although the times are valid


def point_report(
    name: str,
    pipeline: Pipeline,
    traffic: str,
    slices: Sequence[LoadedPoint],
    samples: Sequence[LoadSample],
    judgments: Grades,
    reranks: Mapping[str, int],
    *,
    loop: LoopKind,
    rate: float | None,
    in_flight: int | None,
    seconds: float,
    files: Mapping[str, str],
    caches: bool,
) -> LoadPointReport:
    """Computes the figures of a point. `samples`: of this pipeline, of all its slices, warm-up among them."""
    measured = [sample for sample in samples if sample.phase == "measured"]
    answers = [sample for sample in measured if sample.error is None]
    counts = request_counts(measured)
    latency = load_percentiles([sample.counted_ms for sample in measured])
    lags = [sample.send_lag_ms for sample in measured if sample.send_lag_ms is not None]
    generators = generator_figures([share for part in slices for share in part.generator_cpu], lags)
    steady = rate is not None or in_flight is not None
    halves = half_medians([sample.counted_ms for sample in measured]) if steady else None
    conditions = tuple(part.conditions for part in slices)
    cached = sum_cached_results(sample.cached for sample in measured)
    faults = (
        *timing_faults(generators, latency.p50, halves, conditions, counts.dropped),
        *cache_faults(caches, {name: cached}),
    )
    return LoadPointReport(
        pipeline=name,
        fingerprint=pipeline.fingerprint,
        loop=loop,
        traffic=traffic,
        rate=rate,
        in_flight=in_flight,
        seconds=seconds,
        counts=counts,
        offered=counts.requests / seconds,
        goodput=counts.answered / seconds,
        latency_ms=latency.without_tail() if faults or loop == "closed" else latency,
        service_ms=load_percentiles([sample.service_ms for sample in measured if sample.service_ms is not None]),
        quality=answer_quality(judgments, measured, reranks),
        generators=generators,
        halves=halves,
        conditions=conditions,
        cached=cached,
        stages_ms=stage_times(answers, [one.id for one in pipeline.identified]),
        gap_ms=gap_time(answers),
        path_ms=mean_path(answers, pipeline.identified),
        slowest=slowest_answers(answers),
        timing_valid=not faults,
        timing_faults=faults,
        warmup=len(samples) - len(measured),
        files=dict(files),
    )
