"""Renders a report: a table for the terminal, a page of Markdown for the run folder. Pure; writes no file."""

from collections.abc import Collection

from evaluator.cost_page import cost_parts
from evaluator.datasets.reader import DatasetCounts
from evaluator.deadline_sweep import render_deadlines
from evaluator.judgments_page import judgment_parts
from evaluator.load.chart_images import chart_images
from evaluator.load.cost_table import render_costs
from evaluator.load.report import LoadReport
from evaluator.load.table import (
    load_warnings,
    render_load,
    render_load_repeats,
    render_loading,
    render_ratios,
    render_steps,
)
from evaluator.markdown_table import aligned
from evaluator.metric_table import parse_metric
from evaluator.report import Report

STAGES = (
    "As the gateway reports them; `<stage>.<part>` is what its services report of their own time. Share: of the "
    "latency that the client saw, over all answers; stages that run at once overlap. gateway.wait, total and gap add "
    "up to it: the gap is network, HTTP handling and event loops."
)
LOAD = (
    "Requests at planned times, whether or not earlier ones were answered. Times count from the planned send time; a "
    "request without an answer in time counts with its deadline and as an empty ranking. Stages, slowest "
    "answers and more: [load.md](load.md). Figures: load.json."
)
SLOWEST = "The log of every service names the request_id."
# The first of the experiment's metrics stand in the table, the others on the page.
COLUMNS = 5
# Behind every time that does not hold.
DOUBTFUL = "?"


def render_table(report: Report) -> str:
    """Renders the pipelines, one a row, as a Markdown table aligned for a terminal."""
    metrics = list(next(iter(report.pipelines.values())).quality)[:COLUMNS]
    labels = [parse_metric(metric).label(report.depth) for metric in metrics]
    mark = _doubt(report)
    rows = [["pipeline", *labels, "p50 ms", "p95 ms", "queries", "lost", "degraded"]]
    for name, outcome in report.pipelines.items():
        label = f"{name} ({outcome.preset})" if outcome.preset else name
        latency = outcome.latency_ms
        rows.append(
            [label]
            + [_figure(outcome.quality.get(metric), 4) for metric in metrics]
            + [_time(latency.p50, mark), _time(latency.p95, mark)]
            + [str(outcome.queries), str(outcome.errors), str(outcome.degraded)]
        )
    return aligned(rows)


def render_timing_reasons(report: Report) -> list[str]:
    """Renders why the times do not hold, a line each; none where they do."""
    if not report.timing_reasons:
        return []
    return [f"TIMES ARE NOT VALID (marked {DOUBTFUL}, no p99):", *report.timing_reasons]


def render_verdicts(report: Report) -> list[str]:
    """Renders the intervals of the first metric, and the comparison of every pipeline with the first one."""
    sentences = [outcome.against_first.sentence for outcome in report.pipelines.values() if outcome.against_first]
    metric = next(iter(next(iter(report.pipelines.values())).intervals), None)
    if metric is None:
        return sentences
    intervals = "; ".join(
        f"{name} {_interval(within)}"
        for name, outcome in report.pipelines.items()
        if (within := outcome.intervals.get(metric))
    )
    if not intervals:
        return sentences
    return [f"95 % intervals of {parse_metric(metric).label(report.depth)}: {intervals}.", *sentences]


def render_page(report: Report, charts: Collection[str] = ()) -> str:
    """Renders report.md. `charts`: names of files in load/."""
    counts, manifest = report.counts, report.manifest
    sample = f"{report.sample} drawn with seed {report.seed}" if report.sample else "all judged ones"
    parts = [
        f"# {report.experiment}: {report.dataset}, split {report.split}",
        *(f"**{warning}**" for warning in report.warnings),
        *(f"**{line}**" for line in render_timing_reasons(report)),
        render_table(report),
        *render_verdicts(report),
        "Quality: means over the judged queries that were asked for; a lost query counts as 0. "
        f"Rankings are {report.depth} deep. " + _what_was_timed(report),
        *judgment_parts(report.added_judgments),
        "## What each figure is a mean of",
        "Queries: those in the mean, of which the lost and those without hits have an empty ranking. Worst, expected, "
        "best: the mean with tied documents in their worst order, over their orders, in their best; moved: the queries "
        "that this changes. Unjudged: share of the documents shown, down to the metric's depth, without a judgment.",
        aligned(_figures(report)),
        "## More of latency",
        aligned(_latencies(report)),
    ]
    if len(stages := _stages(report)) > 1:
        parts += ["## Stages (ms)", STAGES, aligned(stages)]
    if len(slowest := _slowest(report)) > 1:
        parts += ["## The slowest 1 % of the answers", SLOWEST, aligned(slowest)]
    if len(uses := _cache_uses(report)) > 1:
        parts += ["## Caches (results that backends had cached)", aligned(uses)]
    parts += cost_parts(report, _doubt(report))
    if report.load is not None:
        parts += load_section(report.load, charts)
    if report.deadlines is not None:
        parts += ["## Deadlines", *render_deadlines(report.deadlines)]
    if gates := [*report.gates, *(report.load.gates if report.load is not None else ())]:
        parts += ["## Gates", "\n".join(f"- {one.sentence}" for one in gates)]
    if len(files := _imported_files(report)) > 1:
        parts += ["## Imported run files", "Hits are those of the judged queries, within the depth.", aligned(files)]
    if report.vector_recall:
        parts += ["## Approximate against exact vector search", aligned(_recalls(report))]
    parts += [
        "## The collection",
        f"{counts.documents} documents, {counts.queries} queries, {counts.judged_queries} of them judged "
        f"({counts.judgments} judgments); asked: {sample}. What reading them had to decide:",
        aligned([["what", "how many"], *([name.replace("_", " "), str(count)] for name, count in _decided(counts))]),
        "## How it was made",
        aligned(
            [
                ["what", "value"],
                ["generation", report.generation or "–"],
                *(["engine of " + name, engine] for name, engine in report.engine.items()),
                ["started", manifest.started_utc],
                ["command", f"`{manifest.command}`"],
                ["commit", f"{manifest.git_commit}{' + changes' if manifest.git_dirty else ''}"],
                ["machine", f"{manifest.machine.in_words}, load {manifest.machine.load_1m:.2f}"],
                ["python", manifest.python],
            ]
        ),
        "Everything else (hashes, stamps, pipelines, versions): manifest.json and rank.json beside this file.",
    ]
    return "\n\n".join(parts) + "\n"


def load_section(load: LoadReport, charts: Collection[str]) -> list[str]:
    """Renders the capacities, tables, charts and warnings of a load. `charts`: names of files in load/."""
    renders = (render_load, render_steps, render_loading, render_ratios, render_load_repeats, render_costs)
    tables = [render(load) for render in renders] if load.points else []
    return [
        "## Load",
        LOAD,
        *(one.sentence for one in load.capacities),
        *filter(None, tables),
        *chart_images(load, charts),
        *(f"**{line}**" for line in load_warnings(load)),
    ]


def _decided(counts: DatasetCounts) -> list[tuple[str, object]]:
    told = ("documents", "queries", "judged_queries", "judgments")
    fields = [(name, value) for name, value in counts.model_dump().items() if name not in told]
    return [(name, ", ".join(value) or "none" if isinstance(value, tuple) else value) for name, value in fields]


def _figures(report: Report) -> list[list[str]]:
    names = [
        "mean",
        "95 % interval",
        "worst",
        "expected",
        "best",
        "moved",
        "queries",
        "lost",
        "no hits",
        "self excluded",
        "unjudged",
    ]
    rows = [["pipeline", "metric", *names]]
    for name, outcome in report.pipelines.items():
        for metric, figure in outcome.figures.items():
            ties, interval = figure.ties, outcome.intervals.get(metric)
            bounds = (ties.worst, ties.expected, ties.best) if ties else (None, None, None)
            rows.append(
                [name, figure.label, _figure(figure.mean, 4), _interval(interval) if interval else "–"]
                + [_figure(value, 4) for value in bounds]
                + [str(ties.queries) if ties else "–"]
                + [str(count) for count in (figure.queries, figure.lost, figure.no_hits, figure.excluded_self)]
                + [_figure(figure.unjudged, 4)]
            )
    return rows


def _latencies(report: Report) -> list[list[str]]:
    mark = _doubt(report)
    rows = [["pipeline", "p99 ms", "max ms", "drift", "run file"]]
    for name, outcome in report.pipelines.items():
        latency = outcome.latency_ms
        rows.append(
            [name, _time(latency.p99, mark), _time(latency.max, mark), _figure(latency.drift, 2), outcome.run_file]
        )
    return rows


def _stages(report: Report) -> list[list[str]]:
    mark = _doubt(report)
    rows = [["pipeline", "stage", "p50", "p95", "share", "answers"]]
    for name, outcome in report.pipelines.items():
        gap = {} if outcome.gap_ms is None else {"(gap)": outcome.gap_ms}
        for stage, time in (*outcome.stages_ms.items(), *gap.items()):
            share = "–" if time.share is None else f"{time.share:z.1%}"
            rows.append([name, stage, _time(time.p50, mark, 2), _time(time.p95, mark, 2), share, str(time.n)])
    return rows


def _slowest(report: Report) -> list[list[str]]:
    mark = _doubt(report)
    rows = [["pipeline", "query", "ms", "stages", "request_id"]]
    for name, outcome in report.pipelines.items():
        for one in outcome.slowest:
            stages = ", ".join(f"{stage} {_time(ms, mark)}" for stage, ms in one.timings_ms.items())
            rows.append([name, one.query, _time(one.latency_ms, mark), stages, one.request_id or "–"])
    return rows


def _cache_uses(report: Report) -> list[list[str]]:
    rows = [["pipeline", "backend", "hit rate", "hits", "of"]]
    for name, outcome in report.pipelines.items():
        for backend, use in outcome.cached.items():
            rows.append([name, backend, _figure(use.rate, 4), str(use.hits), str(use.of)])
    return rows


def _imported_files(report: Report) -> list[list[str]]:
    names = [
        "hits",
        "missing queries",
        "cut queries",
        "unknown queries",
        "hits not in the corpus",
        "tied hits",
        "self-retrieved",
    ]
    rows = [["pipeline", "file", *names]]
    for name, outcome in report.pipelines.items():
        if found := outcome.imported:
            counts = (
                found.hits,
                found.queries_missing,
                found.queries_cut,
                found.queries_unknown,
                found.hits_not_in_corpus,
                found.hits_tied,
                found.excluded_self,
            )
            rows.append([name, found.file, *map(str, counts)])
    return rows


def _recalls(report: Report) -> list[list[str]]:
    rows = [["backend", "recall", "top", "queries", "vectors", "of them indexed"]]
    for name, found in report.vector_recall.items():
        rows.append(
            [name, _figure(found.recall, 4), *map(str, (found.top, found.queries, found.vectors, found.indexed))]
        )
    return rows


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:z.{digits}f}"


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


def _time(ms: float | None, mark: str, digits: int = 1) -> str:
    return _figure(ms, digits) + ("" if ms is None else mark)


def _doubt(report: Report) -> str:
    return DOUBTFUL if report.timing_reasons else ""


def _interval(interval: tuple[float, float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"
