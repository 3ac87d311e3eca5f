"""Reports how far runs of one experiment against one collection differ.

Each run has its own folder and report; the summary, `repeats.json` and `repeats.md`, stands in that of the last one.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.datasets.text_files import sha256
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.markdown_page import aligned
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import query_figures
from evaluator.report.run_report import Report
from evaluator.runs.latency import DOUBTFUL, Timed
from evaluator.runs.run_folder import RunFolder, StepFile
from evaluator.runs.trec_runs import read_run
from services.contracts.base import Count, Wire

REPEATS, REPEATS_PAGE = "repeats.json", "repeats.md"
LATENCIES = ("p50", "p95", "p99", "max")


class Spread(Wire):
    """A figure over the runs that have it: mean, sample standard deviation (n - 1; null for one run), extremes."""

    mean: FiniteFloat
    std: FiniteFloat | None
    min: FiniteFloat
    max: FiniteFloat
    runs: Count


class RepeatedPipeline(Wire):
    """A pipeline over all runs. A figure that no run has is missing."""

    quality: dict[str, Spread]
    latency_ms: dict[str, Spread]
    rankings_differ: Count  # queries whose ranking is not the same in all runs
    figures_differ: Count  # queries of which a metric is not the same in all runs


class RepeatReport(StepFile):
    """repeats.json: the runs by the names of their folders, in order, and their figures."""

    schema_version: Literal[1] = 1
    experiment: str
    depth: Count
    runs: tuple[str, ...]
    generations: tuple[str, ...]  # one: all runs searched the same
    valid: bool  # all runs are
    timing_valid: bool | None = None  # the times of all runs hold; null: there are none, or an old release
    identical: bool  # every figure of quality of every query is the same in all runs
    warnings: tuple[str, ...]
    pipelines: dict[str, RepeatedPipeline]


def repeats_step(runs: Sequence[tuple[RunFolder, Report]]) -> RepeatReport:
    """Compares the runs and writes repeats.json and repeats.md beside the report of the last one."""
    folders, reports = [folder for folder, _ in runs], [report for _, report in runs]
    pipelines = {
        name: _pipeline(folders, [report.pipelines[name] for report in reports], name) for name in reports[0].pipelines
    }
    generations = tuple(dict.fromkeys(report.generation for report in reports))
    timing_valid = [report.timing_valid for report in reports]
    summary = RepeatReport(
        made_from={f"../{folder.path.name}/report.json": sha256(folder.path / "report.json") for folder in folders},
        experiment=reports[0].experiment,
        depth=reports[0].depth,
        runs=tuple(folder.path.name for folder in folders),
        generations=generations,
        valid=all(report.valid for report in reports),
        timing_valid=False if False in timing_valid else None if None in timing_valid else True,
        identical=not any(pipeline.figures_differ for pipeline in pipelines.values()),
        warnings=tuple(_warnings(runs, pipelines, generations)),
        pipelines=pipelines,
    )
    folders[-1].write(REPEATS, summary)
    folders[-1].write_text(REPEATS_PAGE, render_repeats_page(summary))
    return summary


def render_repeats(summary: RepeatReport) -> str:
    """Renders mean and standard deviation of the first metric and of the latency, one row per pipeline."""
    first = next(iter(summary.pipelines.values()))
    quality = list(first.quality)[:1]
    labels = [parse_metric(name).label(summary.depth) for name in quality]
    head = [*(f"{label}{unit}" for label in labels for unit in ("", " std")), "p50 ms", "std", "p95 ms", "std"]
    rows = [["pipeline", *head, "rankings that differ"]]
    for name, pipeline in summary.pipelines.items():
        cells = [cell for metric in quality for cell in _mean_and_std(pipeline.quality.get(metric))]
        cells += [
            cell for share in ("p50", "p95") for cell in _times(pipeline.latency_ms.get(share), summary.timing_valid)
        ]
        rows.append([name, *cells, str(pipeline.rankings_differ)])
    return aligned(rows)


def render_repeats_page(summary: RepeatReport) -> str:
    """Renders repeats.md."""
    rows = [["pipeline", "figure", "mean", "std", "min", "max", "runs"]]
    for name, pipeline in summary.pipelines.items():
        figures = [(parse_metric(metric).label(summary.depth), spread) for metric, spread in pipeline.quality.items()]
        for label, spread in figures:
            rows.append(
                [name, label, *_mean_and_std(spread), f"{spread.min:.4f}", f"{spread.max:.4f}", str(spread.runs)]
            )
        for share, spread in pipeline.latency_ms.items():
            ends = [Timed(ms, summary.timing_valid).cell() for ms in (spread.min, spread.max)]
            rows.append([name, f"{share} ms", *_times(spread, summary.timing_valid), *ends, str(spread.runs)])
    parts = [
        f"# {summary.experiment}: {len(summary.runs)} runs",
        *(f"**{warning}**" for warning in summary.warnings),
        *(["Every query has the same quality in all runs."] if summary.identical else []),
        render_repeats(summary),
        "## All figures",
        aligned(rows),
        "## Runs",
        "\n".join(f"- [{name}](../{name}/report.md)" for name in summary.runs),
    ]
    return "\n\n".join(parts) + "\n"


def _pipeline(folders: Sequence[RunFolder], outcomes: Sequence[PipelineReport], name: str) -> RepeatedPipeline:
    quality = {metric: [outcome.quality.get(metric) for outcome in outcomes] for metric in outcomes[0].quality}
    latency = {share: [getattr(outcome.latency_ms, share).unchecked_ms for outcome in outcomes] for share in LATENCIES}
    return RepeatedPipeline(
        quality=_spreads(quality),
        latency_ms=_spreads(latency),
        rankings_differ=_differing([read_run(folder.run_file(name)) for folder in folders]),
        figures_differ=_differing([dict(query_figures(folder, name)) for folder in folders]),
    )


def _spreads(figures: Mapping[str, Sequence[float | None]]) -> dict[str, Spread]:
    measured = {name: [value for value in values if value is not None] for name, values in figures.items()}
    return {
        name: Spread(
            mean=statistics.fmean(values),
            std=statistics.stdev(values) if len(values) > 1 else None,
            min=min(values),
            max=max(values),
            runs=len(values),
        )
        for name, values in measured.items()
        if values
    }


def _differing(runs: Sequence[Mapping[str, object]]) -> int:
    queries = {query for run in runs for query in run}
    return sum(any(run.get(query) != runs[0].get(query) for run in runs) for query in queries)


def _warnings(
    runs: Sequence[tuple[RunFolder, Report]], pipelines: Mapping[str, RepeatedPipeline], generations: Sequence[str]
) -> Iterable[str]:
    for folder, report in runs:
        yield from (f"{folder.path.name}: {warning}" for warning in report.warnings)
        if report.timing_valid is False:
            yield f"{folder.path.name}: its times are marked {DOUBTFUL}, because {'; '.join(report.timing_reasons)}"
    if len(generations) > 1:
        yield f"the runs searched different generations: {', '.join(generations)}"
    for name, pipeline in pipelines.items():
        if pipeline.figures_differ:
            queries = "1 query" if pipeline.figures_differ == 1 else f"{pipeline.figures_differ} queries"
            yield f"{name}: the quality of {queries} is NOT THE SAME in all runs"


def _mean_and_std(spread: Spread | None) -> list[str]:
    values = (spread.mean, spread.std) if spread else (None, None)
    return ["–" if value is None else f"{value:.4f}" for value in values]


def _times(spread: Spread | None, valid: bool | None) -> list[str]:
    values = (spread.mean, spread.std) if spread else (None, None)
    return [Timed(ms, valid).cell() for ms in values]
