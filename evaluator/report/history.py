"""Lists the runs of an experiment in the order of time, with the verdict of each against earlier ones.

Reads run folders; writes nothing. Statistics and sentences are those of `evaluator.comparison`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat, ValidationError, model_validator

from evaluator.comparison.verdict import PairedComparison, ScoredPair, compare_pairs
from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import expect_higher_is_better, parse_metric
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.run_report import Report
from evaluator.runs.latency import Timed, carry_validity
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.quality_report import QualityReport, QueryFigures
from evaluator.steps.rank import RankReport
from services.contracts.base import Count, Wire
from services.files.regular_file import read_regular

SEED = 20_250_601


class HistoryEntry(Wire):
    """One pipeline of one run. A comparison is null for the first valid run and for a run that is not valid."""

    _carries_validity = model_validator(mode="wrap")(carry_validity)

    run: str  # the name of its folder
    started_utc: str
    commit: str | None
    dirty: bool | None
    valid: bool
    warnings: tuple[str, ...]
    fingerprint: str  # of the pipeline
    generation: str
    quality: dict[str, FiniteFloat | None]
    p50_ms: Timed
    p95_ms: Timed
    timing_valid: bool | None  # whether they hold; null: there are none, or an old release did not record it
    against_previous: PairedComparison | None
    against_best: PairedComparison | None  # of all valid runs before
    against_first: PairedComparison | None


class PipelineHistory(Wire):
    """The runs of one pipeline over the same files, queries, depth and caches, the first one first."""

    pipeline: str
    preset: str | None
    imported: bool
    dataset: str
    split: str
    depth: Count
    caches: bool = False
    queries: Count
    entries: tuple[HistoryEntry, ...]


class HistoryReport(Wire):
    """All runs of an experiment. Within a version, fields are only added."""

    schema_version: Literal[1] = 1
    experiment: str
    metric: str  # of the comparisons, by its name in `quality`
    pipelines: tuple[PipelineHistory, ...]
    left_out: dict[str, str]  # run → why it is not listed


class ReportedExperiment(Wire):
    """An experiment and its runs that have a report, the first one first."""

    experiment: str
    runs: tuple[str, ...]


class ExperimentList(Wire):
    """The experiments of a runs folder. Within a version, fields are only added."""

    schema_version: Literal[1] = 1
    experiments: tuple[ReportedExperiment, ...]


@dataclass(frozen=True, slots=True)
class _Conditions:
    """What has to be equal for two runs of a pipeline to be compared."""

    pipeline: str
    preset: str | None
    imported: bool
    dataset: str
    split: str
    files: tuple[tuple[str, str], ...]  # name and sha256
    depth: int
    caches: bool
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _MeasuredRun:
    """A pipeline of a run, with the metric's value by query."""

    run: str
    report: Report
    outcome: PipelineReport
    values: Mapping[str, float]

    @property
    def mean(self) -> float:
        return sum(self.values.values()) / len(self.values)


@dataclass(frozen=True, slots=True)
class _EarlierRuns:
    """The valid runs that a run is compared with."""

    previous: _MeasuredRun
    best: _MeasuredRun
    first: _MeasuredRun


def history(runs: Path, experiment: str, metric: str) -> HistoryReport:
    """Reads all runs of an experiment. Raises EvaluationError when there is none with a report.

    As in a comparison of two runs, the pipelines of a run that are compared with the same kind of earlier run are one
    family.
    """
    expect_higher_is_better(metric)
    found, left_out = _measured_runs(runs, experiment, metric)
    if not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        others = ", ".join(one.experiment for one in reported_experiments(runs).experiments) or "no experiment"
        raise EvaluationError(
            f"{runs}: no run of {experiment} has a report{': ' if reasons else ''}{reasons}; there are runs of {others}"
        )
    known = {name for measured in found for run in measured.values() for name in run.outcome.quality}
    if metric not in known:
        raise EvaluationError(f"no run of {experiment} was measured by {metric}; there are {', '.join(sorted(known))}")
    histories: dict[_Conditions, list[_MeasuredRun]] = {}
    entries: dict[_Conditions, list[HistoryEntry]] = {}
    for measured in found:
        for conditions, entry in _entries(measured, histories, metric):
            entries.setdefault(conditions, []).append(entry)
        for conditions, run in measured.items():
            histories.setdefault(conditions, []).append(run)
    return HistoryReport(
        experiment=experiment,
        metric=metric,
        pipelines=tuple(_pipeline(conditions, listed) for conditions, listed in entries.items()),
        left_out=left_out,
    )


def reported_experiments(runs: Path) -> ExperimentList:
    """Returns the experiments that have runs with a report, by name."""
    found: dict[str, list[str]] = {}
    for folder in map(RunFolder, RunFolder.every(runs)):
        if folder.has("report.json"):
            with suppress(EvaluationError):  # of another release: `history` reports it for each experiment
                found.setdefault(folder.experiment.name, []).append(folder.name)
    return ExperimentList(
        experiments=tuple(ReportedExperiment(experiment=name, runs=tuple(found[name])) for name in sorted(found))
    )


def _measured_runs(
    runs: Path, experiment: str, metric: str
) -> tuple[list[dict[_Conditions, _MeasuredRun]], dict[str, str]]:
    """Returns the pipelines of each run of the experiment, and why other runs are left out."""
    found, left_out = [], {}
    for path in RunFolder.every(runs):
        folder = RunFolder(path)
        try:
            if folder.experiment.name == experiment and _was_ranked(folder):
                report = folder.read("report.json", Report)
                folder.read("quality.json", QualityReport)  # refuses figures that changed since
                found.append(dict(_measured(folder, report, metric)))
        except (EvaluationError, OSError, ValidationError) as error:
            left_out[folder.name] = str(error)
    return found, left_out


def _was_ranked(folder: RunFolder) -> bool:
    """Returns whether `rank` has ended; False where nothing but a load was asked for.

    Raises EvaluationError, naming the step to run, where it was interrupted.
    """
    if (folder.path / "answers").is_dir() and not folder.has("rank.json"):
        folder.read("rank.json", RankReport)
    return folder.has("rank.json")


def _measured(folder: RunFolder, report: Report, metric: str) -> Iterator[tuple[_Conditions, _MeasuredRun]]:
    for name, outcome in report.pipelines.items():
        lines = read_regular(folder.per_query(name)).splitlines()
        figures = {found.query: found.figures.get(metric) for found in map(QueryFigures.from_record, lines)}
        conditions = _Conditions(
            pipeline=name,
            preset=outcome.preset,
            imported=outcome.imported is not None,
            dataset=report.dataset,
            split=report.split,
            files=(
                *sorted(report.manifest.dataset_sha256.items()),
                *(
                    ("added judgments", one.sha256)
                    for one in (report.added_judgments.files if report.added_judgments else ())
                ),
            ),
            depth=report.depth,
            caches=report.caches,
            queries=tuple(figures),
        )
        # Without the mean, the rankings are not deep enough for the metric.
        known = figures if outcome.quality.get(metric) is not None else {}
        values = {query: value for query, value in known.items() if value is not None}
        yield conditions, _MeasuredRun(folder.name, report, outcome, values)


def _entries(
    measured: Mapping[_Conditions, _MeasuredRun], histories: Mapping[_Conditions, Sequence[_MeasuredRun]], metric: str
) -> Iterator[tuple[_Conditions, HistoryEntry]]:
    earlier = {
        conditions: found
        for conditions, run in measured.items()
        if run.report.valid and run.values and (found := _earlier(histories.get(conditions, ())))
    }
    against_previous = _compared({one: found.previous for one, found in earlier.items()}, measured, metric)
    against_best = _compared({one: found.best for one, found in earlier.items()}, measured, metric)
    against_first = _compared({one: found.first for one, found in earlier.items()}, measured, metric)
    for conditions, run in measured.items():
        manifest, outcome = run.report.manifest, run.outcome
        yield (
            conditions,
            HistoryEntry(
                run=run.run,
                started_utc=manifest.started_utc,
                commit=manifest.git_commit,
                dirty=manifest.git_dirty,
                valid=run.report.valid,
                warnings=run.report.warnings,
                fingerprint=outcome.fingerprint,
                generation=run.report.generation,
                quality=outcome.quality,
                p50_ms=outcome.latency_ms.p50,
                p95_ms=outcome.latency_ms.p95,
                timing_valid=run.report.timing_valid,
                against_previous=against_previous.get(conditions),
                against_best=against_best.get(conditions),
                against_first=against_first.get(conditions),
            ),
        )


def _earlier(runs: Sequence[_MeasuredRun]) -> _EarlierRuns | None:
    valid = [run for run in runs if run.report.valid and run.values]
    if not valid:
        return None
    return _EarlierRuns(previous=valid[-1], best=max(valid, key=lambda run: run.mean), first=valid[0])


def _compared(
    bases: Mapping[_Conditions, _MeasuredRun], measured: Mapping[_Conditions, _MeasuredRun], metric: str
) -> dict[_Conditions, PairedComparison]:
    pairs, label = {}, metric
    for conditions, base in bases.items():
        label = parse_metric(metric).label(conditions.depth)  # the depth of a run is that of all its pipelines
        run = measured[conditions]
        if queries := [query for query in run.values if query in base.values]:
            values = [[side.values[query] for query in queries] for side in (base, run)]
            pairs[conditions] = ScoredPair(base.run, run.run, values[0], values[1])
    return dict(zip(pairs, compare_pairs(tuple(pairs.values()), label, SEED), strict=True))


def _pipeline(conditions: _Conditions, entries: Sequence[HistoryEntry]) -> PipelineHistory:
    return PipelineHistory(
        pipeline=conditions.pipeline,
        preset=conditions.preset,
        imported=conditions.imported,
        dataset=conditions.dataset,
        split=conditions.split,
        depth=conditions.depth,
        caches=conditions.caches,
        queries=len(conditions.queries),
        entries=tuple(entries),
    )
