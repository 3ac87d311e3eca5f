"""Defines report.json and builds it from the files of all steps. Within a version, fields are only added."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from evaluator.attribution.report import AttributionReport
from evaluator.client.cached_results import cache_remarks
from evaluator.comparison.arm_statistics import ArmStatistics
from evaluator.datasets.reader import DatasetCounts
from evaluator.deadline_sweep import DeadlinesFile
from evaluator.experiments.experiment import Experiment
from evaluator.experiments.gates import GateOutcome, judge_gates
from evaluator.load.report import LoadReport
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.conventions import Conventions, state_conventions
from evaluator.report.pipeline_report import PipelineReport, gated_figures, pipeline_report, with_validity
from evaluator.runs.answers import AnswerOutcome
from evaluator.runs.interruptions import LatencySource, interruption_remarks, warmup_remarks
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import StepFile
from evaluator.runs.timing_validity import timing_doubts
from evaluator.steps.ingest import IngestReport
from evaluator.steps.pipeline_costs import CostReport, index_bytes
from evaluator.steps.quality_report import JudgmentChange, QualityReport
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import ImportedFile
from evaluator.steps.validity import arm_faults
from evaluator.steps.vector_recall import VectorRecall
from services.contracts.base import Count


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
    attribution: AttributionReport | None = None  # null: `attribute` was not called
    vector_recall: dict[str, VectorRecall]
    added_judgments: JudgmentChange | None = None  # null: measured by the dataset's judgments alone
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
    attribution: AttributionReport | None,
) -> Report:
    """Builds the report from the outcomes of the steps.

    `imported`: by arm, of those that have them. `source`: where the times come from; `conditions`: of the
    machine meanwhile.
    """
    timed = None if source is None else source.segment
    pipelines = {
        arm.name: pipeline_report(
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
    cached = {name: outcome.cached for name, outcome in pipelines.items()}
    without_times = {arm.name for arm in ranked.arms if arm.pipeline is None}
    doubts = timing_doubts(records, without_times, source, conditions, caches=experiment.caches)
    pipelines = {name: with_validity(outcome, valid=not doubts) for name, outcome in pipelines.items()}
    faults = _faults(manifest, ranked, records, pipelines, recall)
    return Report(
        made_from=dict(made_from),
        experiment=experiment.name,
        dataset=experiment.dataset_name,
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
        warnings=(
            *faults,
            *([manifest.counts.left_out] if manifest.counts.left_out else []),
            *_remarks(ranked, records, source, quality.added_judgments),
            *cache_remarks(experiment.caches, cached),
        ),
        timing_valid=not doubts if len(without_times) < len(ranked.arms) else None,
        timing_reasons=doubts,
        conditions=conditions,
        latency_source=source,
        pipelines=pipelines,
        conventions=state_conventions(list(quality.figures[ranked.arms[0].name]), ranked.depth),
        gates=tuple(judge_gates(experiment.gates, (gated_figures(*item) for item in pipelines.items()))),
        load=load,
        deadlines=deadlines,
        attribution=attribution,
        vector_recall=dict(recall),
        added_judgments=quality.added_judgments,
        counts=manifest.counts,
        ingest=ingested,
        manifest=manifest,
    )


def _remarks(
    ranked: RankReport,
    records: Mapping[str, Sequence[AnswerOutcome]],
    source: LatencySource | None,
    added: JudgmentChange | None,
) -> Iterator[str]:
    """Yields what a reader should know although the run is valid."""
    yield from (file.sentence for file in (added.files if added else ()))
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
