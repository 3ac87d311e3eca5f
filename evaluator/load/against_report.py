"""Defines against.json, builds its figures from the samples of two stacks that took turns, and renders it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import ConfigDict, FiniteFloat, model_validator

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.load_plan import LoadPlan
from evaluator.load.points.figures import (
    METRIC,
    LoadPercentiles,
    RequestCounts,
    load_percentiles,
    query_means,
    request_counts,
    request_values,
)
from evaluator.load.points.ratios import LEAST_PAIRS, SlicePair, SpeedVerdict, judge_speed
from evaluator.load.points.validity import (
    GeneratorFigures,
    cpu_shares,
    generator_faults,
    generator_figures,
    machine_remarks,
)
from evaluator.load.sending.drives import LoadedPoint
from evaluator.load.sending.samples import LoadSample, disturbed_share
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.quality import Grades
from evaluator.metrics.verdict import PairedComparison, ScoredPair, compare_pairs
from evaluator.pages.markdown_page import aligned
from evaluator.runs.latency import MARKED, carry_validity
from evaluator.runs.run_folder import StepFile
from services.contracts.base import Count, Wire

# Of the requests, that other work disturbed at neither stack: with less, all are judged.
LEAST_QUIET = 0.25
HEADER = (
    "pipeline", "rate", "gateway", "p50 ms", "p95 ms", "p99 ms",
    "nDCG@10", "requests", "late", "failed", "dropped",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class DrivenPair:
    """The same planned requests at the stack compared with, and at the one that is judged."""

    baseline: LoadedPoint
    judged: LoadedPoint

    @property
    def measured(self) -> tuple[list[LoadSample], list[LoadSample]]:
        """The requests of both, without the warm-up."""
        return _measured(self.baseline), _measured(self.judged)

    @property
    def quiet(self) -> tuple[list[LoadSample], list[LoadSample]]:
        """The requests of both that other work disturbed at neither stack."""
        first, second = ({sample.number: sample for sample in side} for side in self.measured)
        kept = [number for number in first if not (first[number].disturbed or second[number].disturbed)]
        return [first[number] for number in kept], [second[number] for number in kept]


class StackFigures(Wire):
    """Figures of one stack, of the pairs of slices that were judged."""

    model_config = ConfigDict(revalidate_instances="always")

    url: str
    fingerprint: str  # of the pipeline
    counts: RequestCounts
    latency_ms: LoadPercentiles
    ndcg_at_10: FiniteFloat  # over requests
    generators: GeneratorFigures
    conditions: tuple[MachineConditions, ...]  # of all slices, those that were left out too


class AgainstPoint(Wire):
    """One pipeline at one rate. Null verdicts: the times are not valid, or no request was judged."""

    _carries_validity = model_validator(mode="wrap")(carry_validity)

    pipeline: str
    rate: FiniteFloat
    baseline: StackFigures | None
    judged: StackFigures | None
    speed: SpeedVerdict | None
    quality: PairedComparison | None  # of the means of each query
    pairs: Count  # of slices
    left_out: Count  # requests that other work disturbed at either stack
    timing_valid: bool
    timing_faults: tuple[str, ...]
    files: dict[str, str]  # samples by stack, relative to the run's folder


class AgainstReport(StepFile):
    """against.json, the last file of `load --against`."""

    plan: LoadPlan
    seed: Count
    baseline: str
    judged: str
    margin: FiniteFloat
    points: tuple[AgainstPoint, ...]
    remarks: tuple[str, ...] = ()  # what a reader should know although the times are valid, and what is not judged

    @property
    def slower(self) -> bool:
        """Whether a pipeline is slower beyond the margin."""
        return any(point.speed is not None and point.speed.slower for point in self.points)

    @property
    def decided(self) -> bool:
        """Whether every point has a judgment of every percentile."""
        return all(point.speed is not None and point.speed.decided for point in self.points)


@dataclass(frozen=True, slots=True)
class ComparedStacks:
    """What a point compares: URLs and pipelines' fingerprints, the baseline first; and how."""

    urls: tuple[str, str]
    fingerprints: tuple[str, str]
    pipeline: str
    rate: float
    margin: float
    seed: int


def against_point(
    stacks: ComparedStacks, pairs: Sequence[DrivenPair], judgments: Grades, files: dict[str, str]
) -> AgainstPoint:
    """Judges one pipeline at one rate.

    A request that other work disturbed at either stack is left out at both, unless too few are left: then the ratios
    are of all requests, which it met in turn, and the milliseconds are marked.
    """
    every = [pair.measured for pair in pairs]
    measured = [quiet for pair in pairs if (quiet := pair.quiet)[0]]
    requests, kept = (sum(len(first) for first, _ in of) for of in (every, measured))
    busy = len(measured) < LEAST_PAIRS or kept < requests * LEAST_QUIET
    measured, kept = (every, requests) if busy else (measured, kept)
    sides = [[sample for pair in measured for sample in pair[at]] for at in (0, 1)]
    driven = [[pair.baseline for pair in pairs], [pair.judged for pair in pairs]]
    figures = [_figures(stacks, at, sides[at], driven[at], judgments) for at in (0, 1)]
    # What delays a generator delays it at both stacks.
    faults = () if busy else tuple(_faults(figures))
    speed = None
    if not faults:
        slices = [SlicePair(*([sample.counted_ms for sample in side] for side in pair)) for pair in measured]
        speed = judge_speed(*stacks.urls, slices, stacks.margin, stacks.seed)
    return AgainstPoint(
        pipeline=stacks.pipeline,
        rate=stacks.rate,
        baseline=figures[0],
        judged=figures[1],
        speed=speed,
        quality=_quality(stacks, sides, judgments),
        pairs=len(pairs),
        left_out=requests - kept,
        timing_valid=not faults and not busy,
        timing_faults=faults,
        files=files,
    )


def against_remarks(experiment: Experiment, urls: Sequence[str], points: Sequence[AgainstPoint]) -> Iterator[str]:
    """Yields remarks on the machines, and on parts of the experiment that a comparison does not judge."""
    stacks = [side for point in points for side in (point.baseline, point.judged) if side is not None]
    yield from machine_remarks(urls, [part for stack in stacks for part in stack.conditions])
    if experiment.gates is not None:
        yield "gates of the experiment are not judged here: --against judges the ratios of the two gateways"
    if experiment.load is not None and experiment.load.best_under_ms is not None:
        yield "best_under_ms of the experiment is not used: --against names no best pipeline"
    if experiment.caches:
        yield "caches were on, and hit rates are not judged here: each request in load/*.jsonl has its own (`cached`)"
    else:
        yield "that no cache answered is not checked here: every request said `Cache-Control: no-store`"


def _measured(loaded: LoadedPoint) -> list[LoadSample]:
    return [sample for sample in loaded.samples if sample.phase == "measured"]


def _figures(
    stacks: ComparedStacks, at: int, samples: Sequence[LoadSample], driven: Sequence[LoadedPoint], judgments: Grades
) -> StackFigures | None:
    if not samples:
        return None
    values = request_values(judgments, samples)
    lags = [sample.send_lag_ms for sample in samples if sample.send_lag_ms is not None]
    return StackFigures(
        url=stacks.urls[at],
        fingerprint=stacks.fingerprints[at],
        counts=request_counts(samples),
        latency_ms=load_percentiles([sample.counted_ms for sample in samples], disturbed_share(samples)),
        ndcg_at_10=sum(values) / len(values),
        generators=generator_figures(
            cpu_shares([part.generators for part in driven]), lags, real_time=all(part.real_time for part in driven)
        ),
        conditions=tuple(part.conditions for part in driven),
    )


def _faults(figures: Sequence[StackFigures | None]) -> list[str]:
    """Returns why the times are not judged."""
    return [
        f"{stack.url}: {fault}"
        for stack in figures
        if stack is not None
        for fault in generator_faults(stack.generators, stack.latency_ms.p50.unchecked_ms, stack.counts.dropped)
    ]


def _quality(
    stacks: ComparedStacks, sides: Sequence[Sequence[LoadSample]], judgments: Grades
) -> PairedComparison | None:
    means = [query_means(judgments, samples) for samples in sides]
    # Both were asked the same queries.
    first, second = ({query: mean[query] for query in sorted(means[0])} for mean in means)
    return compare_pairs([ScoredPair(*stacks.urls, first, second)], METRIC)[0] if first else None


def render_against(report: AgainstReport) -> str:
    """Renders the table, the verdicts and the remarks."""
    rows = [row for point in report.points for row in _rows(point)]
    sentences = [sentence for point in report.points for sentence in _sentences(point)]
    return "\n\n".join([aligned([HEADER, *rows]), *sentences, *report.remarks])


def _rows(point: AgainstPoint) -> Iterator[list[str]]:
    for stack in (point.baseline, point.judged):
        if stack is not None:
            yield [point.pipeline, f"{point.rate:g}/s", stack.url, *_cells(stack)]


def _cells(stack: StackFigures) -> Iterator[str]:
    for time in (stack.latency_ms.p50, stack.latency_ms.p95, stack.latency_ms.p99):
        yield time.cell()
    yield f"{stack.ndcg_at_10:.4f}"
    for count in (stack.counts.requests, stack.counts.late, stack.counts.failed, stack.counts.dropped):
        yield str(count)


def _beside(point: AgainstPoint) -> str:
    if not point.timing_valid:
        return " Other work met both in turn: the ratios are of all requests, and the milliseconds are marked."
    return f" {point.left_out} requests were left out: other work disturbed them at one stack." * bool(point.left_out)


def _sentences(point: AgainstPoint) -> Iterator[str]:
    name = f"{point.pipeline} at {point.rate:g}/s"
    for fault in point.timing_faults:
        yield f"{name}: times {MARKED}, because {fault}"
    if point.speed is not None:
        yield f"{name}: {point.speed.sentence}{_beside(point)}"
    if point.quality is not None:
        yield f"{name}: {point.quality.sentence}"
