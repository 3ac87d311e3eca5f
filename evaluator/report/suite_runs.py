"""Owns the folder of an experiment over several datasets, with a run's folder for each, and sums the runs up.

The mean of the sets never stands alone. A set of several parts counts once, with the mean of its parts (CQADupStack:
Thakur et al. 2021, arXiv 2104.08663).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Literal

from pydantic import FiniteFloat

from evaluator.experiments.experiment import Experiment
from evaluator.experiments.suite import Suite
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.markdown_page import aligned
from evaluator.report.run_report import Report
from evaluator.runs.run_folder import SUITE, RunFolder, StepFile, new_folder, removed_on_error
from services.contracts.base import Count, Wire

SUMMARY, SUMMARY_PAGE = "summary.json", "summary.md"
Figures = dict[str, dict[str, FiniteFloat | None]]  # by pipeline and metric


class SetSummary(Wire):
    """Figures of one set. `parts` names the sets that it is the mean of; none: `run` is the folder it was read from."""

    name: str
    run: str | None
    parts: tuple[str, ...] = ()
    part_of: str | None = None
    queries: Count  # the denominator, summed over the parts
    quality: Figures


class SuiteSummary(StepFile):
    """summary.json. `mean` is over `mean_of`, each set with the same weight; null where a set has no figure."""

    schema_version: Literal[1] = 1
    experiment: str
    depth: Count  # of the rankings, and so of MAP
    valid: bool
    warnings: tuple[str, ...]
    sets: tuple[SetSummary, ...]
    mean_of: tuple[str, ...]
    mean: Figures


def create_runs(runs: Path, plan: Experiment | Suite) -> Path:
    """Creates the folder of a run, or of a suite with the folders of its runs, and returns it."""
    if isinstance(plan, Experiment):
        return RunFolder.create(runs, plan).path
    path = new_folder(runs, plan.name, plan.fingerprint)
    with removed_on_error(path):
        for member in plan.members:
            (path / member.name).mkdir()
            RunFolder(path / member.name).write("experiment.json", member.experiment)
        RunFolder(path).write(SUITE, plan)
    return path


def suite_at(path: Path) -> Suite | None:
    """Returns the suite whose folder this is; None: it is the folder of one run, or none at all."""
    return RunFolder(path).read(SUITE, Suite) if (path / SUITE).is_file() else None


def runs_of(path: Path) -> Sequence[RunFolder]:
    """Returns the runs of a folder: of a suite all, else the one that it is. Raises EvaluationError when it is none."""
    suite = suite_at(path)
    if suite is None:
        return [RunFolder.open(path)]
    return [RunFolder.open(path.resolve() / member.name) for member in suite.members]


def runs_to_rank(path: Path) -> Sequence[RunFolder]:
    """Returns the runs of a folder whose `rank` has not ended; all of them where none is left."""
    runs = runs_of(path)
    return [folder for folder in runs if not folder.has("rank.json")] or runs


def summary_step(path: Path, suite: Suite, reports: Mapping[str, Report]) -> SuiteSummary:
    """Writes summary.json and summary.md of a suite's folder from the report of each run."""
    folder = RunFolder(path)
    summary = summarise_suite(suite, reports, folder.hashes(*(f"{name}/report.json" for name in reports)))
    folder.write(SUMMARY, summary)
    folder.write_text(SUMMARY_PAGE, render_summary_page(summary))
    return summary


def summarise_suite(suite: Suite, reports: Mapping[str, Report], made_from: dict[str, str]) -> SuiteSummary:
    """Builds the summary from the report of each member, by its name; `made_from` is the sha256 of their files."""
    sets: list[SetSummary] = []
    for member in suite.members:
        pipelines = reports[member.name].pipelines
        own = SetSummary(
            name=member.name,
            run=member.name,
            part_of=member.part_of,
            queries=max(outcome.judged for outcome in pipelines.values()),
            quality={pipeline: dict(outcome.quality) for pipeline, outcome in pipelines.items()},
        )
        sets.append(own)
        parts = [summed for summed in sets if member.part_of and summed.part_of == member.part_of]
        if parts and len(parts) == sum(other.part_of == member.part_of for other in suite.members):
            whole = SetSummary(
                name=str(member.part_of),
                run=None,
                parts=tuple(part.name for part in parts),
                queries=sum(part.queries for part in parts),
                quality=_mean(parts),
            )
            sets.append(whole)
    counted = [summed for summed in sets if summed.part_of is None]
    return SuiteSummary(
        made_from=made_from,
        experiment=suite.name,
        depth=suite.members[0].experiment.depth,
        valid=all(report.valid for report in reports.values()),
        warnings=tuple(f"{name}: {warning}" for name, report in reports.items() for warning in report.warnings),
        sets=tuple(sets),
        mean_of=tuple(summed.name for summed in counted),
        mean=_mean(counted),
    )


def render_summary_table(summary: SuiteSummary, metric: str) -> str:
    """Renders one metric: a row for each set, the mean in the last one, a column for each pipeline."""
    pipelines = list(summary.mean)
    rows = [[parse_metric(metric).label(summary.depth), *pipelines, "queries"]]
    for summed in summary.sets:
        label = f"{summed.name} (mean of {len(summed.parts)})" if summed.parts else summed.name
        rows.append([label, *_cells(summed.quality, pipelines, metric), str(summed.queries)])
    if len(summary.mean_of) > 1:
        rows.append([f"mean of {len(summary.mean_of)} sets", *_cells(summary.mean, pipelines, metric), "–"])
    return aligned(rows)


def render_summary_page(summary: SuiteSummary) -> str:
    """Renders summary.md: a table for each metric."""
    metrics = dict.fromkeys(metric for quality in summary.mean.values() for metric in quality)
    parts = [
        f"# {summary.experiment}: {len(summary.mean_of)} datasets",
        *(f"**{warning}**" for warning in summary.warnings),
        *(render_summary_table(summary, metric) for metric in metrics),
        "Each set has the same weight in the mean, however many queries it has. A set of several parts counts once.",
        "The runs: " + ", ".join(f"[{summed.name}]({summed.run}/report.md)" for summed in summary.sets if summed.run),
    ]
    return "\n\n".join(parts) + "\n"


def _mean(sets: Sequence[SetSummary]) -> Figures:
    return {
        pipeline: {metric: _mean_or_none([summed.quality[pipeline][metric] for summed in sets]) for metric in figures}
        for pipeline, figures in sets[0].quality.items()
    }


def _mean_or_none(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if len(known) == len(values) else None


def _cells(quality: Figures, pipelines: Sequence[str], metric: str) -> list[str]:
    values = [quality[pipeline].get(metric) for pipeline in pipelines]
    return ["–" if value is None else f"{value:.4f}" for value in values]
