"""Reads what a report of a run is made of: the files that `ingest`, `rank`, `import` and `quality` leave.

Computes what it states beside the figures: intervals of means, and verdicts against the baseline.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from evaluator.experiments.experiment import Experiment
from evaluator.machine.machine_conditions import MachineConditions
from evaluator.metrics.metric_table import parse_metric
from evaluator.metrics.paired_differences import interval, sorted_differences
from evaluator.metrics.quality import PerQuery
from evaluator.metrics.verdict import PairedComparison, ScoredPair, compare_pairs, scored_pair
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
class RunFamily:
    """All pairs of a run's pipelines in its first metric. `unused`: all judged queries, where only some were asked."""

    metric: str
    pairs: Sequence[PairedComparison]
    unused: int | None = None

    def shown_better(self, other: str, pipeline: str) -> bool:
        """Returns whether another pipeline is shown to be better than this one."""
        return any(
            (pair.first, pair.second, pair.outcome) in ((pipeline, other, "better"), (other, pipeline, "worse"))
            for pair in self.pairs
        )

    def between(self, first: str, second: str) -> PairedComparison:
        """Returns the comparison of two pipelines, whichever is its first."""
        return next(pair for pair in self.pairs if {pair.first, pair.second} == {first, second})


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
    family: RunFamily | None
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
    pairs, family = _family(figures, against, ranked, manifest)
    records = {arm: tuple(read_outcomes(folder.answers(arm))) for arm in arms}
    return RankedRun(
        experiment=experiment,
        manifest=manifest,
        ranked=ranked,
        quality=quality,
        baseline=against,
        figures=figures,
        statistics=_statistics_of_arms(figures, against, pairs, family, experiment.seed),
        family=family,
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


def _family(
    figures: Mapping[str, PerQuery], baseline: str, ranked: RankReport, manifest: Manifest
) -> tuple[tuple[ScoredPair, ...], RunFamily | None]:
    """Compares all pairs of a run, the baseline as the first of its own. `figures`: arm → metric → query → value.

    The metric is the first one that has a value in each pair and of which more is better.
    """
    judged = manifest.counts.judged_queries
    unused = judged if len(ranked.queries) < judged else None
    arms = [baseline, *(arm for arm in figures if arm != baseline)]
    for metric in figures[baseline]:
        parsed = parse_metric(metric)
        pairs = tuple(
            scored_pair(first, second, figures[first][metric], figures[second][metric])
            for first, second in combinations(arms, 2)
        )
        if pairs and all(pair.first_values for pair in pairs) and not parsed.family.lower_is_better:
            return pairs, RunFamily(metric, compare_pairs(pairs, parsed.label(ranked.depth)), unused)
    return (), None


def _statistics_of_arms(
    figures: Mapping[str, PerQuery], baseline: str, pairs: Sequence[ScoredPair], family: RunFamily | None, seed: int
) -> dict[str, ArmStatistics]:
    against = {
        pair.second: (compared, sorted_differences(tuple(pair.differences.values())))
        for pair, compared in zip(pairs, family.pairs if family else (), strict=True)
        if pair.first == baseline
    }
    return {
        arm: ArmStatistics(_intervals(per_query, seed), *against.get(arm, (None, ())))
        for arm, per_query in figures.items()
    }


def _intervals(figures: PerQuery, seed: int) -> dict[str, tuple[float, float] | None]:
    known = {metric: [value for value in values.values() if value is not None] for metric, values in figures.items()}
    return {metric: interval(values, seed) for metric, values in known.items() if values}
