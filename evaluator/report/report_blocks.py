"""Builds the page of a report: what stands in it and in which order, for every markup language. Pure."""

from collections.abc import Collection

from evaluator.attribution.page import attribution_blocks
from evaluator.deadline_tables import deadline_blocks
from evaluator.load.load_blocks import load_blocks
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.page_blocks import Block, Bullets, Caution, ChartImage, Heading, Prose, Table, Verdict, filled
from evaluator.pages.stacked_times_chart import PATH
from evaluator.report.cost_page import cost_blocks
from evaluator.report.judgment_blocks import judgment_blocks
from evaluator.report.report import Report
from evaluator.report.report_charts import DIFFERENCES, QUALITY_LATENCY, STAGES_CHART
from evaluator.report.report_tables import (
    cache_rows,
    collection_rows,
    difference_rows,
    figure_rows,
    imported_rows,
    interval_words,
    latency_rows,
    origin_rows,
    pair_differences,
    path_rows,
    pipeline_rows,
    recall_rows,
    slowest_rows,
    stage_rows,
    times_hold,
)
from evaluator.runs.latency import DOUBTFUL

STAGES = (
    "As the gateway reports them; `<stage>.<part>` is what its services report of their own time. Share: of the "
    "latency that the client saw, over all answers; stages that run at once overlap. gateway.wait, total and gap add "
    "up to it: the gap is network, HTTP handling and event loops."
)
FIGURES = (
    "Queries: those in the mean, of which the lost and those without hits have an empty ranking. Worst, expected, "
    "best: the mean with tied documents in their worst order, over their orders, in their best; moved: the queries "
    "that this changes. Unjudged: share of the documents shown, down to the metric's depth, without a judgment."
)
DIFFER = "Differences to the first pipeline"
SLOWEST = "The log of every service names the request_id."
ELSEWHERE = "Everything else (hashes, stamps, pipelines, versions): manifest.json and rank.json beside this file."


def report_title(report: Report) -> str:
    """Returns the title of the page."""
    return f"{report.experiment}: {report.dataset}, split {report.split}"


def report_blocks(report: Report, charts: Collection[str] = ()) -> list[Block]:
    """Returns the page without its title. `charts`: paths of those that are there, within the run's folder."""
    counts = report.counts
    sample = f"{report.sample} drawn with seed {report.seed}" if report.sample else "all judged ones"
    blocks: list[Block] = [
        *(Caution(warning) for warning in report.warnings),
        *(Caution(line) for line in timing_reasons(report)),
        Table("pipelines", "Quality and latency of each pipeline", pipeline_rows(report)),
        *_quality_latency(report, charts),
        *(Verdict(line) for line in verdicts(report)),
        *_images(charts, DIFFERENCES, f"{DIFFER}, query by query"),
        *filled(Table("differences", f"{DIFFER}, query by query", difference_rows(pair_differences(report)))),
        Prose(
            "Quality: means over the judged queries that were asked for; a lost query counts as 0. "
            f"Rankings are {report.depth} deep. " + _what_was_timed(report)
        ),
        *judgment_blocks(report.added_judgments),
        Heading("What each figure is a mean of"),
        Prose(FIGURES),
        Table("figures", "Each metric of each pipeline, with interval, bounds and denominators", figure_rows(report)),
        Heading("More of latency"),
        Table("latency", "Tail of the latency", latency_rows(report)),
    ]
    if stages := filled(Table("stages", "Milliseconds by stage", stage_rows(report))):
        shown = _images(charts, STAGES_CHART, "Where the time goes")
        path = Table("path", PATH, path_rows(report))
        blocks += [Heading("Stages (ms)"), *shown, *filled(path), Prose(STAGES), *stages]
    if slowest := filled(Table("slowest", "The slowest 1 % of the answers", slowest_rows(report))):
        blocks += [Heading("The slowest 1 % of the answers"), Prose(SLOWEST), *slowest]
    if uses := filled(Table("caches", "Results that backends had cached", cache_rows(report))):
        blocks += [Heading("Caches (results that backends had cached)"), *uses]
    blocks += cost_blocks(report, valid=times_hold(report))
    if report.load is not None:
        blocks += load_blocks(report.load, charts)
    if report.deadlines is not None:
        blocks += [Heading("Deadlines"), *deadline_blocks(report.deadlines)]
    if report.attribution is not None:
        title = f"Where relevant documents were lost (first {report.attribution.top} hits)"
        blocks += [Heading(title), *attribution_blocks(report.attribution, charts)]
    if gates := [*report.gates, *(report.load.gates if report.load is not None else ())]:
        blocks += [Heading("Gates"), Bullets(tuple(one.sentence for one in gates))]
    if files := filled(Table("imported", "What reading the run files decided", imported_rows(report))):
        within = Prose("Hits are those of the judged queries, within the depth.")
        blocks += [Heading("Imported run files"), within, *files]
    if report.vector_recall:
        recall = Table("recall", "Recall of approximate vector search", recall_rows(report))
        blocks += [Heading("Approximate against exact vector search"), recall]
    return [
        *blocks,
        Heading("The collection"),
        Prose(
            f"{counts.documents} documents, {counts.queries} queries, {counts.judged_queries} of them judged "
            f"({counts.judgments} judgments); asked: {sample}. What reading them had to decide:"
        ),
        Table("collection", "Decisions while reading the collection", collection_rows(counts)),
        Heading("How it was made"),
        Table("origin", "Origin of the figures", origin_rows(report)),
        Prose(ELSEWHERE),
    ]


def timing_reasons(report: Report) -> list[str]:
    """Returns why the times do not hold, a line each; none where they do."""
    if not report.timing_reasons:
        return []
    return [f"TIMES ARE NOT VALID (marked {DOUBTFUL}, no p99):", *report.timing_reasons]


def verdicts(report: Report) -> list[str]:
    """Returns the intervals of the first metric, and the comparison of every pipeline with the first one."""
    sentences = [outcome.against_first.sentence for outcome in report.pipelines.values() if outcome.against_first]
    metric = next(iter(next(iter(report.pipelines.values())).intervals), None)
    if metric is None:
        return sentences
    intervals = "; ".join(
        f"{name} {interval_words(within)}"
        for name, outcome in report.pipelines.items()
        if (within := outcome.intervals.get(metric))
    )
    if not intervals:
        return sentences
    return [f"95 % intervals of {parse_metric(metric).label(report.depth)}: {intervals}.", *sentences]


def _quality_latency(report: Report, charts: Collection[str]) -> list[Block]:
    """Returns the chart, or why there is none although times were taken."""
    if report.timing_reasons:
        return [Prose("No chart of quality against latency: the times do not hold.")]
    return _images(charts, QUALITY_LATENCY, "Quality against latency of each pipeline")


def _images(charts: Collection[str], path: str, shows: str) -> list[Block]:
    return [ChartImage(path, shows)] if path in charts else []


def _what_was_timed(report: Report) -> str:
    if all(outcome.imported for outcome in report.pipelines.values()):
        return "Imported run files hold no latency."
    top = report.timed_top or report.depth
    whole = (
        "Latency: one query at a time, from sending to the last byte read, of the very answers whose quality stands "
        f"beside it, {top} hits each; p99 only from 662 answers on."
    )
    if not any(outcome.deep for outcome in report.pipelines.values()):
        return whole
    return f"{whole} Metrics that look deeper than {top} are of a second, untimed request for {report.depth} hits."
