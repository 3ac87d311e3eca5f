"""Defines report.json and builds it from the files of all steps. Within a version, fields are only added."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.answers import AnswerOutcome
from evaluator.breakdown import SlowAnswer, StageTime, gap_time, slowest_answers, stage_times
from evaluator.cached_results import CacheUse, cache_faults, cache_remarks, sum_cached_results
from evaluator.comparison.arm_statistics import ArmStatistics
from evaluator.comparison.verdict import PairedComparison
from evaluator.conventions import Conventions, state_conventions
from evaluator.datasets.reader import DatasetCounts
from evaluator.deadline_sweep import DeadlinesFile
from evaluator.experiment import Experiment
from evaluator.gates import GatedFigures, GateOutcome, judge_gates
from evaluator.ingest import IngestReport
from evaluator.interruptions import LatencySource, interruption_remarks, warmup_remarks
from evaluator.latency import MIN_SAMPLES_FOR_P99, Latency, summarise
from evaluator.load.report import LoadReport
from evaluator.machine_conditions import MachineConditions
from evaluator.manifest import Manifest
from evaluator.pipeline_costs import CostReport, PipelineCost, index_bytes
from evaluator.quality_figures import QualityFigure
from evaluator.rank import RankedArm, RankReport
from evaluator.run_folder import StepFile
from evaluator.run_import import ImportedFile
from evaluator.timing_validity import timing_faults
from evaluator.validity import arm_faults
from evaluator.vector_recall import VectorRecall
from services.contracts.base import Count, Wire


class QualityReport(StepFile):
    """quality.json: unrounded means per arm over `judged` queries, and what belongs to each of them."""

    made_from: dict[str, str]
    arms: dict[str, dict[str, FiniteFloat | None]]  # null: no query has a value
    figures: dict[str, dict[str, QualityFigure]]  # by arm, then metric
    judged: Count
    run_queries_not_judged: dict[str, Count]  # in the run file, but not among the judged ones: ignored
    deep_differs: dict[str, Count] = {}  # queries whose deeper answer does not begin as the timed one


class QueryFigures(Wire):
    """A line of quality/<arm>.jsonl."""

    query: str
    # null: the query has none (judged@k where nothing is shown), or the rankings were cut above the cutoff
    figures: dict[str, FiniteFloat | None]


class PipelineReport(Wire):
    """Figures of one arm. Lost queries (`errors`) count as 0 in every mean of `quality`, and not in `latency_ms`."""

    fingerprint: str
    preset: str | None  # the lexical preset that the experiment has set, if it has
    models: dict[str, tuple[str, ...]]  # by rerank stage: every model that answered, `name@weights`
    quality: dict[str, FiniteFloat | None]  # by name (nDCG@10, …): the means of `figures`
    figures: dict[str, QualityFigure] = {}  # by name: the mean, its denominator, its bounds over tied documents
    # By name: of the mean, 95 %, BCa bootstrap; null where a single query has a value.
    intervals: dict[str, tuple[FiniteFloat, FiniteFloat] | None] = {}
    against_first: PairedComparison | None = None  # in the first metric; null: the first pipeline, or no metric
    latency_ms: Latency
    stages_ms: dict[str, StageTime]  # by stage, `<stage>.<part>`, `include`, `gateway.wait`, `total`
    gap_ms: StageTime | None = None  # latency beyond `gateway.wait` and `total`; null: none was reported
    slowest: tuple[SlowAnswer, ...] = ()  # 1 % of the answers of `latency_ms`
    cached: dict[str, CacheUse] = {}  # by backend that looked results up in a cache
    warmup_ms: tuple[FiniteFloat, ...] = ()  # latency of the warm-up answers, in the order of sending
    cost: PipelineCost | None = None  # null: `rank` knew no process
    index_bytes: Count | None = None  # of the indexes that it reads; null: one of the engines does not say
    queries: Count  # sent and measured
    judged: Count  # the denominator of every metric that has a value for each of them (`figures`)
    errors: Count
    errors_by_kind: dict[str, Count]
    no_hits: Count  # answered, with an empty ranking
    degraded: Count  # answers with a degradation
    degraded_by_stage: dict[str, Count]  # `stage: reason`
    excluded_self: Count
    warmup: Count  # labelled warm-up answers, in no figure
    deep: Count = 0  # second requests for more hits, of which metrics deeper than `timed_top` are
    deep_differs: Count = 0  # of them, those that did not begin as the timed answer
    run_queries_not_judged: Count
    run_file: str  # relative to the folder of the report
    imported: ImportedFile | None = None  # the file that `import` has read; it holds no latency, stages or models


class Report(StepFile):
    """Outcome of a run. `valid` only when no query was lost or degraded and nothing changed during the run.

    `warnings` also hold remarks that leave a run valid: an interruption, a warm-up without answers.
    """

    schema_version: Literal[1] = 1
    experiment: str
    dataset: str
    split: str
    collection: str
    generation: str  # empty: imported
    engine: dict[str, str]  # by backend
    seed: Count
    depth: Count  # of the rankings
    timed_top: Count | None = None  # hits that a timed request asked for; null: `depth` of them, or nothing was timed
    sample: Count | None  # queries drawn with `seed`; null: all judged ones
    caches: bool = False  # services were allowed to answer from their caches
    valid: bool
    warnings: tuple[str, ...]
    # Whether the times hold, and why not; p99 is null where they do not. null: no times (imported), or an old release.
    timing_valid: bool | None = None
    timing_reasons: tuple[str, ...] = ()
    conditions: MachineConditions | None = None  # of the machine while the times were taken; null: not read
    latency_source: LatencySource | None = None  # null: the run was not interrupted, and latency is of all answers
    pipelines: dict[str, PipelineReport]
    conventions: Conventions | None = None  # null: of a release that did not state them
    gates: tuple[GateOutcome, ...] = ()  # of the queries one at a time; those of the load stand in `load`
    load: LoadReport | None = None  # null: no traffic was sent
    deadlines: DeadlinesFile | None = None  # null: `deadlines --run` was not called
    vector_recall: dict[str, VectorRecall]
    counts: DatasetCounts
    ingest: IngestReport | None  # null when the collection was there already
    manifest: Manifest


def build_report(
    experiment: Experiment,
    manifest: Manifest,
    ranked: RankReport,
    records: Mapping[str, Sequence[AnswerOutcome]],
    source: LatencySource | None,
    conditions: MachineConditions | None,
    quality: QualityReport,
    statistics: Mapping[str, ArmStatistics],
    recall: Mapping[str, VectorRecall],
    ingested: IngestReport | None,
    run_files: Mapping[str, str],
    imported: Mapping[str, ImportedFile],
    costs: CostReport,
    made_from: Mapping[str, str],
    load: LoadReport | None,
    deadlines: DeadlinesFile | None,
) -> Report:
    """Builds the report from the outcomes of the steps.

    `imported`: by arm, of those that have them. `source`: where the times come from; `conditions`: of the
    machine meanwhile.
    """
    timed = None if source is None else source.segment
    pipelines = {
        arm.name: _pipeline(
            arm,
            ranked,
            records[arm.name],
            quality,
            statistics[arm.name],
            run_files[arm.name],
            imported.get(arm.name),
            timed,
        ).model_copy(
            update={
                "cost": costs.pipelines.get(arm.name),
                "index_bytes": index_bytes(arm.pipeline, manifest.backends, costs.indexes),
            }
        )
        for arm in ranked.arms
    }
    samples = {arm.name: _samples_ms(records[arm.name], timed) for arm in ranked.arms if arm.pipeline is not None}
    cached = {name: outcome.cached for name, outcome in pipelines.items()}
    doubts = (*timing_faults(samples, records, source, conditions), *cache_faults(experiment.caches, cached))
    if doubts:
        pipelines = {name: _without_p99(outcome) for name, outcome in pipelines.items()}
    faults = _faults(manifest, ranked, records, pipelines, recall)
    return Report(
        made_from=dict(made_from),
        experiment=experiment.name,
        dataset=experiment.directory.resolve().name,
        split=experiment.split,
        collection=experiment.target,
        generation=manifest.generation,
        engine={name: state.engine for name, state in manifest.backends.items()},
        seed=experiment.seed,
        depth=ranked.depth,
        timed_top=ranked.timed_top,
        sample=len(ranked.queries) if len(ranked.queries) < manifest.counts.judged_queries else None,
        caches=experiment.caches,
        valid=not faults,
        warnings=(*faults, *_remarks(ranked, records, source), *cache_remarks(experiment.caches, cached)),
        timing_valid=not doubts if samples else None,
        timing_reasons=doubts,
        conditions=conditions,
        latency_source=source,
        pipelines=pipelines,
        conventions=state_conventions(list(quality.figures[ranked.arms[0].name]), ranked.depth),
        gates=tuple(judge_gates(experiment.gates, (gated_figures(*item) for item in pipelines.items()))),
        load=load,
        deadlines=deadlines,
        vector_recall=dict(recall),
        counts=manifest.counts,
        ingest=ingested,
        manifest=manifest,
    )


def _pipeline(
    arm: RankedArm,
    ranked: RankReport,
    records: Sequence[AnswerOutcome],
    quality: QualityReport,
    statistics: ArmStatistics,
    run_file: str,
    imported: ImportedFile | None,
    timed_segment: int | None,
) -> PipelineReport:
    measured = [record for record in records if record.phase == "measured"]
    answered = [record for record in measured if record.error is None]
    timed = [record for record in answered if timed_segment in (None, record.segment)]
    deep = [record for record in records if record.phase == "deep"]
    deep_answered = [record for record in deep if record.error is None]
    kinds = Counter(record.error for record in measured if record.error is not None)
    kinds += Counter(f"{record.error} (deep)" for record in deep if record.error is not None)
    if missing := len(ranked.queries) - len(measured):
        kinds["no_record"] += missing
    models: dict[str, set[str]] = {}
    for record in (*answered, *deep_answered):
        for stage, model in record.models.items():
            models.setdefault(stage, set()).add(model)
    degraded = {
        (record.query, f"{item.stage}: {item.reason}")
        for record in (*answered, *deep_answered)
        for item in record.degraded
    }
    return PipelineReport(
        fingerprint=arm.fingerprint,
        preset=arm.preset,
        models={stage: tuple(sorted(names)) for stage, names in models.items()},
        quality={metric: figure.mean for metric, figure in quality.figures[arm.name].items()},
        figures=quality.figures[arm.name],
        intervals=dict(statistics.intervals),
        against_first=statistics.against_first,
        latency_ms=summarise(_samples_ms(records, timed_segment)),
        stages_ms=stage_times(timed, [one.id for one in arm.pipeline.identified] if arm.pipeline else []),
        gap_ms=gap_time(timed),
        slowest=slowest_answers(timed),
        cached=sum_cached_results(record.cached for record in timed),
        warmup_ms=tuple(one.latency_ms for one in records if one.phase == "warmup" and one.latency_ms is not None),
        queries=len(ranked.queries),
        judged=quality.judged,
        errors=sum(kinds.values()),
        errors_by_kind=dict(kinds),
        no_hits=sum(record.hits == 0 for record in answered),
        degraded=len({query for query, _ in degraded}),
        degraded_by_stage=dict(Counter(what for _, what in sorted(degraded))),
        excluded_self=sum(record.excluded_self for record in measured),
        warmup=sum(record.phase == "warmup" for record in records),
        deep=len(deep),
        deep_differs=quality.deep_differs.get(arm.name, 0),
        run_queries_not_judged=quality.run_queries_not_judged[arm.name],
        run_file=run_file,
        imported=imported,
    )


def _samples_ms(records: Sequence[AnswerOutcome], segment: int | None) -> list[float]:
    """Returns the times of the timed answers, of one segment if given."""
    timed = [record for record in records if record.phase == "measured" and segment in (None, record.segment)]
    return [record.latency_ms for record in timed if record.error is None and record.latency_ms is not None]


def gated_figures(name: str, outcome: PipelineReport) -> GatedFigures:
    """Returns the figures of a pipeline that gates bound."""
    return GatedFigures(
        pipeline=name,
        traffic=None,
        p99_ms=outcome.latency_ms.p99,
        ndcg_at_10=outcome.quality.get("nDCG@10"),
        errors=outcome.errors / outcome.queries if outcome.queries else None,
        cpu_ms=None if outcome.cost is None else outcome.cost.cpu_ms,
        missing={
            "p99_ms": f"the times are not valid, or fewer than {MIN_SAMPLES_FOR_P99} answers were timed",
            "ndcg_at_10": "nDCG@10 is none of the metrics of this run",
            "errors": "no query was sent",
            "cpu_ms": "the CPU time of the processes was not measured",
        },
    )


def _without_p99(outcome: PipelineReport) -> PipelineReport:
    return outcome.model_copy(update={"latency_ms": outcome.latency_ms.model_copy(update={"p99": None})})


def _remarks(
    ranked: RankReport, records: Mapping[str, Sequence[AnswerOutcome]], source: LatencySource | None
) -> Iterator[str]:
    """Yields what a reader should know although the run is valid."""
    yield from interruption_remarks(source)
    yield from warmup_remarks(records, source)
    if ranked.compared_documents == 0:
        yield "no backend returns documents by id: only their number was compared with the corpus"


def _faults(
    manifest: Manifest,
    ranked: RankReport,
    records: Mapping[str, Sequence[AnswerOutcome]],
    pipelines: Mapping[str, PipelineReport],
    recall: Mapping[str, VectorRecall],
) -> list[str]:
    found = list(manifest.counts.warnings)
    for arm in ranked.arms:
        outcome = pipelines[arm.name]
        if outcome.errors:
            kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.errors_by_kind.items()))
            found.append(f"{arm.name}: LOST {outcome.errors} of {outcome.queries} queries ({kinds}); they count as 0")
        if outcome.degraded:
            stages = ", ".join(f"{what} {count}" for what, count in sorted(outcome.degraded_by_stage.items()))
            found.append(
                f"{arm.name}: {outcome.degraded} answers were DEGRADED ({stages}): not this pipeline's figures"
            )
        if outcome.deep_differs:
            found.append(
                f"{arm.name}: {outcome.deep_differs} of {outcome.deep} answers began OTHERWISE when "
                f"{ranked.depth} hits were asked for instead of {ranked.timed_top}"
            )
        found += arm_faults(arm.name, arm, manifest, records[arm.name], outcome.imported)
    found += [f"{name}: no recall figure: {measured.reason}" for name, measured in recall.items() if measured.reason]
    return found
