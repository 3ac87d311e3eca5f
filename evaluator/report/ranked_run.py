"""Reads what a report of a run is made of: the files that `ingest`, `rank`, `import` and `quality` leave.

Computes what it states beside the figures: intervals of means, and verdicts against the baseline.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evaluator.experiments.experiment import Experiment
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.paired_tests import differences, interval, sorted_differences
from evaluator.metrics.quality import PerQuery
from evaluator.metrics.verdict import PairedComparison, compare_pairs, scored_pair
from evaluator.runs.answers import AnswerOutcome, read_outcomes
from evaluator.runs.manifest import Manifest
from evaluator.runs.run_folder import RunFolder
from evaluator.runs.timing_validity import conditions_of
from evaluator.steps.ingest import IngestReport
from evaluator.steps.pipeline_costs import CostReport, costs_of
from evaluator.steps.quality_figures import QualityReport, QueryFigures
from evaluator.steps.rank import RankReport
from evaluator.steps.run_import import IMPORTED, ImportedFile, ImportReport
from evaluator.steps.vector_recall import RecallReport, VectorRecall
from services.files.regular_file import open_regular


@dataclass(frozen=True, slots=True)
class ArmStatistics:
    """Intervals by metric, and the comparison with the baseline (None for the baseline itself).

    `differences`: of the queries in that comparison, as `sorted_differences` has them.
    """

    intervals: Mapping[str, tuple[float, float] | None]
    against_first: PairedComparison | None
    differences: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class RankedRun:
    """A run whose queries were answered and measured. Mappings are by arm, `recall` by backend.

    `baseline`: the arm that the others are set against. `conditions`: of the machine while they were timed.
    `imported`: of the arms that have it.
    """

    experiment: Experiment
    manifest: Manifest
    ranked: RankReport
    quality: QualityReport
    baseline: str
    figures: Mapping[str, PerQuery]
    statistics: Mapping[str, ArmStatistics]
    records: Mapping[str, Sequence[AnswerOutcome]]
    conditions: MachineConditions | None
    recall: Mapping[str, VectorRecall]
    ingested: IngestReport | None
    imported: Mapping[str, ImportedFile]
    costs: CostReport
    run_files: Mapping[str, str]


def read_ranked_run(folder: RunFolder, baseline: str | None = None) -> RankedRun:
    """Reads the files of a run. Raises EvaluationError for one that is missing or stale, or an unknown `baseline`."""
    experiment, ranked = folder.experiment, folder.read("rank.json", RankReport)
    quality = folder.read("quality.json", QualityReport)  # first: it refuses changed files of the arms
    arms = [arm.name for arm in ranked.arms]
    against = experiment.baseline_among(arms, baseline)
    figures = {arm: _per_query(folder, arm) for arm in arms}
    manifest = folder.read("manifest.json", Manifest)
    records = {arm: tuple(read_outcomes(folder.answers(arm))) for arm in arms}
    return RankedRun(
        experiment=experiment,
        manifest=manifest,
        ranked=ranked,
        quality=quality,
        baseline=against,
        figures=figures,
        statistics=_statistics_of_arms(figures, against, ranked.depth, experiment.seed),
        records=records,
        conditions=conditions_of(folder.path),
        recall=folder.read("recall.json", RecallReport).backends,
        ingested=folder.read("ingest.json", IngestReport) if folder.has("ingest.json") else None,
        imported=folder.read(IMPORTED, ImportReport).arms if folder.has(IMPORTED) else {},
        costs=costs_of(folder),
        run_files={arm: str(folder.run_file(arm).relative_to(folder.path)) for arm in arms},
    )


def query_figures(folder: RunFolder, arm: str) -> Iterator[tuple[str, Mapping[str, float | None]]]:
    """Yields the queries of an arm with their value by metric."""
    with open_regular(folder.per_query(arm)) as file:
        for line in file:
            record = QueryFigures.from_record(line)
            yield record.query, record.figures


def _per_query(folder: RunFolder, arm: str) -> PerQuery:
    """Reads the figures of an arm's queries: metric → query → value."""
    by_metric: dict[str, dict[str, float | None]] = {}
    for query, figures in query_figures(folder, arm):
        for metric, value in figures.items():
            by_metric.setdefault(metric, {})[query] = value
    return by_metric


def _statistics_of_arms(
    figures: Mapping[str, PerQuery], baseline: str, depth: int, seed: int
) -> dict[str, ArmStatistics]:
    """Returns the statistics of each arm. `figures`: arm → metric → query → value, None where a query has none.

    The metric compared is the first one that has a value and of which more is better.
    """
    others = [arm for arm in figures if arm != baseline]
    compared: dict[str, PairedComparison] = {}
    ascending: dict[str, tuple[float, ...]] = {}
    for metric in figures[baseline]:
        pairs = [scored_pair(baseline, arm, figures[baseline][metric], figures[arm][metric]) for arm in others]
        if all(pair.first_values for pair in pairs) and not parse_metric(metric).family.lower_is_better:
            compared = dict(zip(others, compare_pairs(pairs, parse_metric(metric).label(depth), seed), strict=True))
            ascending = {
                pair.second: sorted_differences(differences(pair.first_values, pair.second_values)) for pair in pairs
            }
            break
    return {
        arm: ArmStatistics(_intervals(per_query, seed), compared.get(arm), ascending.get(arm, ()))
        for arm, per_query in figures.items()
    }


def _intervals(figures: PerQuery, seed: int) -> dict[str, tuple[float, float] | None]:
    known = {metric: [value for value in values.values() if value is not None] for metric, values in figures.items()}
    return {metric: interval(values, seed) for metric, values in known.items() if values}
