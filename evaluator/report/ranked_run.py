"""Reads what a report of a run is made of: the files that `ingest`, `rank`, `import` and `quality` leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evaluator.comparison.arm_statistics import ArmStatistics, statistics_of_arms
from evaluator.experiments.experiment import Experiment
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.quality import PerQuery
from evaluator.runs.answers import AnswerOutcome, read_outcomes
from evaluator.runs.interruptions import LatencySource, latency_source
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.timing_validity import conditions_of
from evaluator.steps.ingest import IngestReport
from evaluator.steps.pipeline_costs import CostReport, costs_of
from evaluator.steps.quality_report import QualityReport, QueryFigures
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import IMPORTED, ImportedFile, ImportReport
from evaluator.steps.vector_recall import RecallReport, VectorRecall
from services.files.regular_file import open_regular


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run whose queries were answered and measured. Mappings are by arm, `recall` by backend.

    `baseline`: the arm that the others are set against. `source`: where the times come from; `conditions`: of the
    machine meanwhile. `imported`: of the arms that have it.
    """

    experiment: Experiment
    manifest: Manifest
    ranked: RankReport
    quality: QualityReport
    baseline: str
    figures: Mapping[str, PerQuery]
    statistics: Mapping[str, ArmStatistics]
    records: Mapping[str, Sequence[AnswerOutcome]]
    source: LatencySource | None
    conditions: MachineConditions | None
    recall: Mapping[str, VectorRecall]
    ingested: IngestReport | None
    imported: Mapping[str, ImportedFile]
    costs: CostReport
    run_files: Mapping[str, str]

    @property
    def timed_segment(self) -> int | None:
        """The segment whose times count; None: all."""
        return None if self.source is None else self.source.segment


def read_ranked_run(folder: RunFolder, baseline: str | None = None) -> RankedRun:
    """Reads the files of a run. Raises EvaluationError for one that is missing or stale, or an unknown `baseline`."""
    experiment, ranked = folder.experiment, folder.read("rank.json", RankReport)
    quality = folder.read("quality.json", QualityReport)  # first: it refuses changed files of the arms
    arms = [arm.name for arm in ranked.arms]
    against = experiment.baseline_among(arms, baseline)
    figures = {arm: _per_query(folder, arm) for arm in arms}
    manifest = folder.read("manifest.json", Manifest)
    records = {arm: tuple(read_outcomes(folder.answers(arm))) for arm in arms}
    source = latency_source(manifest, records)
    return RankedRun(
        experiment=experiment,
        manifest=manifest,
        ranked=ranked,
        quality=quality,
        baseline=against,
        figures=figures,
        statistics=statistics_of_arms(figures, against, ranked.depth, experiment.seed),
        records=records,
        source=source,
        conditions=conditions_of(folder.path, 0 if source is None else source.segment),
        recall=folder.read("recall.json", RecallReport).backends,
        ingested=folder.read("ingest.json", IngestReport) if folder.has("ingest.json") else None,
        imported=folder.read(IMPORTED, ImportReport).arms if folder.has(IMPORTED) else {},
        costs=costs_of(folder),
        run_files={arm: str(folder.run_file(arm).relative_to(folder.path)) for arm in arms},
    )


def _per_query(folder: RunFolder, arm: str) -> PerQuery:
    """Reads the figures of an arm's queries: metric → query → value."""
    figures: dict[str, dict[str, float | None]] = {}
    with open_regular(folder.per_query(arm)) as file:
        for line in file:
            found = QueryFigures.from_record(line)
            for metric, value in found.figures.items():
                figures.setdefault(metric, {})[found.query] = value
    return figures
