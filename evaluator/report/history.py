"""Lists the runs of an experiment in the order of time, with the verdict of each against earlier ones.

Reads run folders; writes nothing. Statistics and sentences are those of `evaluator.comparison`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from evaluator.errors import EvaluationError
from evaluator.metrics.metric_table import expect_higher_is_better, parse_metric
from evaluator.metrics.paired_differences import mean
from evaluator.metrics.verdict import PairedComparison, compare_pairs, scored_pair
from evaluator.pages.markdown_page import aligned
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import query_figures
from evaluator.report.run_report import Report
from evaluator.runs.latency import DOUBTFUL
from evaluator.runs.run_folder import RunFolder
from evaluator.steps.quality_figures import QualityReport
from evaluator.steps.rank import RankReport


@dataclass(frozen=True, slots=True)
class RunConditions:
    """Conditions that two runs of a pipeline must share to be compared."""

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
class MeasuredRun:
    """A pipeline of a run, with the metric's value by query."""

    run: str  # the name of its folder
    report: Report
    outcome: PipelineReport
    values: Mapping[str, float]

    @property
    def comparable(self) -> bool:
        """Whether later runs are compared with it, and it with earlier ones."""
        return self.report.valid and bool(self.values)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A run with its verdicts; None for the first valid run and for a run that is not valid."""

    measured: MeasuredRun
    against_previous: PairedComparison | None
    against_best: PairedComparison | None  # of all valid runs before
    against_first: PairedComparison | None

    @property
    def comparisons(self) -> tuple[PairedComparison | None, ...]:
        """The verdicts, in the order of the table."""
        return self.against_previous, self.against_best, self.against_first


@dataclass(frozen=True, slots=True)
class ExperimentHistory:
    """The runs of an experiment by metric: of each pipeline under equal conditions, the first one first."""

    metric: str  # of the comparisons
    pipelines: Mapping[RunConditions, Sequence[HistoryEntry]]
    left_out: Mapping[str, str]  # run → why it is not listed


# The pipelines of one run, by their conditions.
_Measured = Mapping[RunConditions, MeasuredRun]
# Which of the comparable runs before a run is compared with, by the field of its entry.
_BASES: Mapping[str, Callable[[Sequence[MeasuredRun]], MeasuredRun]] = {
    "against_previous": lambda runs: runs[-1],
    "against_best": lambda runs: max(runs, key=lambda run: mean(tuple(run.values.values()))),
    "against_first": lambda runs: runs[0],
}


def history(runs: Path, experiment: str, metric: str) -> ExperimentHistory:
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
            f"{runs}: no run of {experiment} can be listed: {reasons or f'there are runs of {others}'}"
        )
    known = {name for pipelines in measured for run in pipelines.values() for name in run.outcome.quality}
    if metric not in known:
        raise EvaluationError(f"no run of {experiment} was measured by {metric}; there are {', '.join(sorted(known))}")
    earlier: dict[RunConditions, list[MeasuredRun]] = {}
    entries: dict[RunConditions, list[HistoryEntry]] = {}
    for pipelines in measured:
        verdicts = {field: _compared(pipelines, earlier, choose, metric) for field, choose in _BASES.items()}
        for conditions, run in pipelines.items():
            against = {field: compared.get(conditions) for field, compared in verdicts.items()}
            entries.setdefault(conditions, []).append(HistoryEntry(run, **against))
            if run.comparable:
                earlier.setdefault(conditions, []).append(run)
    return ExperimentHistory(metric, entries, left_out)


def render_history(listed: ExperimentHistory) -> str:
    """Renders a table per pipeline, and the sentences about its last run."""
    parts = [part for item in listed.pipelines.items() for part in _pipeline_parts(*item, listed.metric)]
    parts += [f"Not listed: {run}: {reason}" for run, reason in listed.left_out.items()]
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
    """Returns whether `rank` has ended; False for a folder with no more than a load.

    Raises EvaluationError, naming the step to run, where it was interrupted.
    """
    if (folder.path / "answers").is_dir() and not folder.has("rank.json"):
        folder.read("rank.json", RankReport)
    return folder.has("rank.json")


def _pipelines(folder: RunFolder, report: Report, metric: str) -> Iterator[tuple[RunConditions, MeasuredRun]]:
    added = report.added_judgments.files if report.added_judgments else ()
    files = (*sorted(report.manifest.dataset_sha256.items()), *(("added judgments", file.sha256) for file in added))
    for name, outcome in report.pipelines.items():
        figures = {query: figures.get(metric) for query, figures in query_figures(folder, name)}
        conditions = RunConditions(
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
        yield conditions, MeasuredRun(folder.name, report, outcome, values)


def _compared(
    measured: _Measured,
    earlier: Mapping[RunConditions, Sequence[MeasuredRun]],
    choose: Callable[[Sequence[MeasuredRun]], MeasuredRun],
    metric: str,
) -> dict[RunConditions, PairedComparison]:
    """Compares each pipeline of a run with one of the runs before it; where there is none, it is left out."""
    pairs, label = {}, metric
    for conditions, run in measured.items():
        if run.comparable and (before := earlier.get(conditions)):
            label = parse_metric(metric).label(conditions.depth)  # the depth of a run is that of all its pipelines
            base = choose(before)
            pair = scored_pair(base.run, run.run, base.values, run.values)
            if pair.first_values:
                pairs[conditions] = pair
    return dict(zip(pairs, compare_pairs(tuple(pairs.values()), label), strict=True))


def _pipeline_parts(of: RunConditions, entries: Sequence[HistoryEntry], metric: str) -> Iterator[str]:
    label = f"{of.pipeline} ({of.preset})" if of.preset else of.pipeline
    kind = (", imported" if of.imported else "") + (", caches on" if of.caches else "")
    depth = f"{len(of.queries)} queries, rankings {of.depth} deep"
    yield f"{label}{kind}: {of.dataset}, split {of.split}, {depth}"
    head = ["started", "commit", "fingerprint", parse_metric(metric).label(of.depth)]
    rows = [[*head, *(f"against the {base}" for base in ("one before", "best", "first")), "p50 ms", "p95 ms", "run"]]
    for entry in entries:
        outcome, manifest = entry.measured.outcome, entry.measured.report.manifest
        value = outcome.quality.get(metric)
        rows.append(
            [
                manifest.started_utc,
                f"{(manifest.git_commit or 'unknown')[:8]}{' + changes' if manifest.git_dirty else ''}",
                outcome.fingerprint,
                "–" if value is None else f"{value:.4f}",
                *(_verdict(entry, compared) for compared in entry.comparisons),
                outcome.latency_ms.p50.cell(),
                outcome.latency_ms.p95.cell(),
                entry.measured.run,
            ]
        )
    yield aligned(rows)
    if any(entry.measured.report.timing_valid is False for entry in entries):
        yield f"{DOUBTFUL}: times that are not valid; the report of the run has the reason."
    # The one before may be the best or the first too: each sentence once.
    yield from dict.fromkeys(compared.sentence for compared in entries[-1].comparisons if compared)


def _verdict(entry: HistoryEntry, compared: PairedComparison | None) -> str:
    if not entry.measured.report.valid:
        return "not valid"
    return f"{compared.outcome} {compared.difference:+z.4f}" if compared else ""
