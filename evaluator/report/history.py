"""Lists the runs of an experiment in the order of time, with the verdict of each against earlier ones.

Reads run folders; writes nothing. Statistics and sentences are those of `evaluator.comparison`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import FiniteFloat, ValidationError, model_validator

from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import expect_higher_is_better, parse_metric
from evaluator.metrics.paired_tests import mean
from evaluator.metrics.verdict import PairedComparison, compare_pairs, scored_pair
from evaluator.pages.markdown_page import aligned
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import query_figures
from evaluator.report.run_report import Report
from evaluator.runs.latency import DOUBTFUL, Timed, carry_validity
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.quality_figures import QualityReport
from evaluator.steps.rank import RankReport
from services.contracts.base import Count, Wire

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
    def comparable(self) -> bool:
        """Whether later runs are compared with it, and it with earlier ones."""
        return self.report.valid and bool(self.values)


# The pipelines of one run, by what has to be equal.
_Measured = Mapping[_Conditions, _MeasuredRun]
# Which of the comparable runs before a run is compared with, by the field of its entry.
_BASES: Mapping[str, Callable[[Sequence[_MeasuredRun]], _MeasuredRun]] = {
    "against_previous": lambda runs: runs[-1],
    "against_best": lambda runs: max(runs, key=lambda run: mean(tuple(run.values.values()))),
    "against_first": lambda runs: runs[0],
}


def history(runs: Path, experiment: str, metric: str) -> HistoryReport:
    """Reads all runs of an experiment. Raises EvaluationError when there is none with a report.

    As in a comparison of two runs, the pipelines of a run that are compared with the same kind of earlier run are one
    family.
    """
    expect_higher_is_better(metric)
    measured, left_out = _measured_runs(runs, experiment, metric)
    if not measured:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        others = ", ".join(_reported_experiments(runs)) or "no experiment"
        raise EvaluationError(
            f"{runs}: no run of {experiment} has a report{': ' if reasons else ''}{reasons}; there are runs of {others}"
        )
    known = {name for pipelines in measured for run in pipelines.values() for name in run.outcome.quality}
    if metric not in known:
        raise EvaluationError(f"no run of {experiment} was measured by {metric}; there are {', '.join(sorted(known))}")
    earlier: dict[_Conditions, list[_MeasuredRun]] = {}
    entries: dict[_Conditions, list[HistoryEntry]] = {}
    for pipelines in measured:
        verdicts = {field: _compared(pipelines, earlier, choose, metric) for field, choose in _BASES.items()}
        for conditions, run in pipelines.items():
            against = {field: compared.get(conditions) for field, compared in verdicts.items()}
            entries.setdefault(conditions, []).append(_entry(run, against))
            if run.comparable:
                earlier.setdefault(conditions, []).append(run)
    return HistoryReport(
        experiment=experiment,
        metric=metric,
        pipelines=tuple(_pipeline(conditions, listed) for conditions, listed in entries.items()),
        left_out=left_out,
    )


def render_history(report: HistoryReport) -> str:
    """Renders a table a pipeline, and the sentences about its last run."""
    parts = [part for listed in report.pipelines for part in _pipeline_parts(listed, report.metric)]
    parts += [f"Not listed: {run}: {reason}" for run, reason in report.left_out.items()]
    return "\n\n".join(parts)


def _reported_experiments(runs: Path) -> list[str]:
    names = set()
    for folder in map(RunFolder, RunFolder.every(runs)):
        if folder.has("report.json"):
            with suppress(EvaluationError):  # of another release
                names.add(folder.experiment.name)
    return sorted(names)


def _measured_runs(runs: Path, experiment: str, metric: str) -> tuple[list[_Measured], dict[str, str]]:
    """Returns the pipelines of each run of the experiment, and why other runs are left out."""
    measured: list[_Measured] = []
    left_out = {}
    for path in RunFolder.every(runs):
        folder = RunFolder(path)
        try:
            if folder.experiment.name == experiment and _was_ranked(folder):
                report = folder.read("report.json", Report)
                folder.read("quality.json", QualityReport)  # refuses figures that changed since
                measured.append(dict(_pipelines(folder, report, metric)))
        except (EvaluationError, OSError, ValidationError) as error:
            left_out[folder.name] = str(error)
    return measured, left_out


def _was_ranked(folder: RunFolder) -> bool:
    """Returns whether `rank` has ended; False where nothing but a load was asked for.

    Raises EvaluationError, naming the step to run, where it was interrupted.
    """
    if (folder.path / "answers").is_dir() and not folder.has("rank.json"):
        folder.read("rank.json", RankReport)
    return folder.has("rank.json")


def _pipelines(folder: RunFolder, report: Report, metric: str) -> Iterator[tuple[_Conditions, _MeasuredRun]]:
    added = report.added_judgments.files if report.added_judgments else ()
    files = (
        *sorted(report.manifest.dataset_sha256.items()),
        *(("added judgments", file.sha256) for file in added),
    )
    for name, outcome in report.pipelines.items():
        figures = {query: figures.get(metric) for query, figures in query_figures(folder, name)}
        conditions = _Conditions(
            pipeline=name,
            preset=outcome.preset,
            imported=outcome.imported is not None,
            dataset=report.dataset,
            split=report.split,
            files=files,
            depth=report.depth,
            caches=report.caches,
            queries=tuple(figures),
        )
        # Without the mean, the rankings are not deep enough for the metric.
        known = figures if outcome.quality.get(metric) is not None else {}
        values = {query: value for query, value in known.items() if value is not None}
        yield conditions, _MeasuredRun(folder.name, report, outcome, values)


def _compared(
    measured: _Measured,
    earlier: Mapping[_Conditions, Sequence[_MeasuredRun]],
    choose: Callable[[Sequence[_MeasuredRun]], _MeasuredRun],
    metric: str,
) -> dict[_Conditions, PairedComparison]:
    """Compares each pipeline of a run with one of the runs before it; where there is none, it is left out."""
    pairs, label = {}, metric
    for conditions, run in measured.items():
        if run.comparable and (before := earlier.get(conditions)):
            label = parse_metric(metric).label(conditions.depth)  # the depth of a run is that of all its pipelines
            base = choose(before)
            pair = scored_pair(base.run, run.run, base.values, run.values)
            if pair.first_values:
                pairs[conditions] = pair
    return dict(zip(pairs, compare_pairs(tuple(pairs.values()), label, SEED), strict=True))


def _entry(run: _MeasuredRun, against: Mapping[str, PairedComparison | None]) -> HistoryEntry:
    manifest, outcome = run.report.manifest, run.outcome
    return HistoryEntry(
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
        **against,
    )


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


def _pipeline_parts(listed: PipelineHistory, metric: str) -> Iterator[str]:
    label = f"{listed.pipeline} ({listed.preset})" if listed.preset else listed.pipeline
    kind = (", imported" if listed.imported else "") + (", caches on" if listed.caches else "")
    depth = f"{listed.queries} queries, rankings {listed.depth} deep"
    yield f"{label}{kind}: {listed.dataset}, split {listed.split}, {depth}"
    head = ["started", "commit", "fingerprint", parse_metric(metric).label(listed.depth)]
    rows = [[*head, *(f"against the {base}" for base in ("one before", "best", "first")), "p50 ms", "p95 ms", "run"]]
    for entry in listed.entries:
        value = entry.quality.get(metric)
        rows.append(
            [
                entry.started_utc,
                f"{(entry.commit or 'unknown')[:8]}{' + changes' if entry.dirty else ''}",
                entry.fingerprint,
                "–" if value is None else f"{value:.4f}",
                *(_verdict(entry, compared) for compared in _comparisons(entry)),
                entry.p50_ms.cell(),
                entry.p95_ms.cell(),
                entry.run,
            ]
        )
    yield aligned(rows)
    if any(entry.timing_valid is False for entry in listed.entries):
        yield f"{DOUBTFUL}: times that are not valid (the report of the run says why)."
    # The one before may be the best or the first too: each sentence once.
    yield from dict.fromkeys(compared.sentence for compared in _comparisons(listed.entries[-1]) if compared)


def _comparisons(entry: HistoryEntry) -> tuple[PairedComparison | None, ...]:
    return entry.against_previous, entry.against_best, entry.against_first


def _verdict(entry: HistoryEntry, compared: PairedComparison | None) -> str:
    if not entry.valid:
        return "not valid"
    return f"{compared.outcome} {compared.difference:+z.4f}" if compared else ""
