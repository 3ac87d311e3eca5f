"""Builds the tables of a report as rows of text: the same for Markdown, HTML, CSV and LaTeX. Pure."""

from collections.abc import Iterable

from evaluator.comparison.differences_chart import PairDifferences
from evaluator.datasets.reader import DatasetCounts
from evaluator.metrics.metric_table import parse_metric
from evaluator.pages.stacked_times_chart import PIECES, StackedTimes, piece_rows
from evaluator.report.report import Report
from evaluator.runs.latency import Timed

# The first of the experiment's metrics stand in the first table, the others in the second.
COLUMNS = 5


def pipeline_rows(report: Report) -> list[list[str]]:
    """Returns the pipelines, one a row: quality, latency, losses."""
    metrics = list(next(iter(report.pipelines.values())).quality)[:COLUMNS]
    labels = [parse_metric(metric).label(report.depth) for metric in metrics]
    valid = times_hold(report)
    rows = [["pipeline", *labels, "p50 ms", "p95 ms", "queries", "lost", "degraded"]]
    for name, outcome in report.pipelines.items():
        label = f"{name} ({outcome.preset})" if outcome.preset else name
        latency = outcome.latency_ms
        rows.append(
            [label]
            + [_figure(outcome.quality.get(metric), 4) for metric in metrics]
            + [Timed(ms, valid).cell() for ms in (latency.p50, latency.p95)]
            + [str(outcome.queries), str(outcome.errors), str(outcome.degraded)]
        )
    return rows


def figure_rows(report: Report) -> list[list[str]]:
    """Returns each metric of each pipeline: mean, interval, bounds over ties, denominators."""
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
                [name, figure.label, _figure(figure.mean, 4), interval_words(interval) if interval else "–"]
                + [_figure(value, 4) for value in bounds]
                + [str(ties.queries) if ties else "–"]
                + [str(count) for count in (figure.queries, figure.lost, figure.no_hits, figure.excluded_self)]
                + [_figure(figure.unjudged, 4)]
            )
    return rows


def latency_rows(report: Report) -> list[list[str]]:
    """Returns what the first table does not say of latency."""
    valid = times_hold(report)
    rows = [["pipeline", "p99 ms", "max ms", "drift", "run file"]]
    for name, outcome in report.pipelines.items():
        latency = outcome.latency_ms
        rows.append(
            [
                name,
                *(Timed(ms, valid).cell() for ms in (latency.p99, latency.max)),
                _figure(latency.drift, 2),
                outcome.run_file,
            ]
        )
    return rows


def stage_rows(report: Report) -> list[list[str]]:
    """Returns the times of each stage and its parts, in milliseconds."""
    valid = times_hold(report)
    rows = [["pipeline", "stage", "p50", "p95", "share", "answers"]]
    for name, outcome in report.pipelines.items():
        gap = {} if outcome.gap_ms is None else {"(gap)": outcome.gap_ms}
        for stage, time in (*outcome.stages_ms.items(), *gap.items()):
            share = "–" if time.share is None else f"{time.share:z.1%}"
            rows.append([name, stage, *(Timed(ms, valid).cell(2) for ms in (time.p50, time.p95)), share, str(time.n)])
    return rows


def path_rows(report: Report) -> list[list[str]]:
    """Returns where the mean latency of each pipeline went, a piece a row."""
    return [["pipeline", *PIECES], *([one.name, *row] for one in stacked_times(report) for row in piece_rows(one))]


def stacked_times(report: Report) -> list[StackedTimes]:
    """Returns the mean latency of each pipeline by piece."""
    return [StackedTimes("", name, one.path_ms, times_hold(report)) for name, one in report.pipelines.items()]


def difference_rows(compared: Iterable[PairDifferences]) -> list[list[str]]:
    """Returns pairs, one a row: queries won, tied and lost, the mean difference, the greatest loss and gain."""
    rows = [
        ["pipeline", "against", "queries", "won", "tied", "lost", "difference", "95 % interval", "p (Holm)",
         "greatest loss", "greatest gain"]
    ]  # fmt: skip
    for pair in compared:
        one, interval = pair.compared, pair.compared.interval
        ends = (pair.ascending[0], pair.ascending[-1]) if pair.ascending else (None, None)
        rows.append(
            [
                one.second,
                one.first,
                *(str(count) for count in (one.queries, one.wins, one.ties, one.losses)),
                f"{one.difference:+z.4f}",
                f"{interval[0]:+z.4f} to {interval[1]:+z.4f}" if interval else "–",
                f"{one.p_holm:.4f}",
                *("–" if end is None else f"{end:+z.4f}" for end in ends),
            ]
        )
    return rows


def pair_differences(report: Report) -> list[PairDifferences]:
    """Returns the differences of each pipeline from the first."""
    return [
        PairDifferences(one.against_first, one.differences) for one in report.pipelines.values() if one.against_first
    ]


def slowest_rows(report: Report) -> list[list[str]]:
    """Returns the slowest answers with their stages."""
    valid = times_hold(report)
    rows = [["pipeline", "query", "ms", "stages", "request_id"]]
    for name, outcome in report.pipelines.items():
        for one in outcome.slowest:
            stages = ", ".join(f"{stage} {Timed(ms, valid).cell()}" for stage, ms in one.timings_ms.items())
            rows.append([name, one.query, Timed(one.latency_ms, valid).cell(), stages, one.request_id or "–"])
    return rows


def cache_rows(report: Report) -> list[list[str]]:
    """Returns how many results each backend had cached."""
    rows = [["pipeline", "backend", "hit rate", "hits", "of"]]
    for name, outcome in report.pipelines.items():
        for backend, use in outcome.cached.items():
            rows.append([name, backend, _figure(use.rate, 4), str(use.hits), str(use.of)])
    return rows


def imported_rows(report: Report) -> list[list[str]]:
    """Returns what reading the imported run files decided."""
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


def recall_rows(report: Report) -> list[list[str]]:
    """Returns the recall of approximate vector search by backend."""
    rows = [["backend", "recall", "top", "queries", "vectors", "of them indexed"]]
    for name, found in report.vector_recall.items():
        rows.append(
            [name, _figure(found.recall, 4), *map(str, (found.top, found.queries, found.vectors, found.indexed))]
        )
    return rows


def collection_rows(counts: DatasetCounts) -> list[list[str]]:
    """Returns what reading the dataset had to decide."""
    return [["what", "how many"], *([name.replace("_", " "), str(count)] for name, count in _decided(counts))]


def origin_rows(report: Report) -> list[list[str]]:
    """Returns how the run was made: generation, engines, command, commit, machine."""
    manifest = report.manifest
    return [
        ["what", "value"],
        ["generation", report.generation or "–"],
        *(["engine of " + name, engine] for name, engine in report.engine.items()),
        ["started", manifest.started_utc],
        ["command", f"`{manifest.command}`"],
        ["commit", f"{manifest.git_commit}{' + changes' if manifest.git_dirty else ''}"],
        ["machine", f"{manifest.machine.in_words}, load {manifest.machine.load_1m:.2f}"],
        ["python", manifest.python],
    ]


def times_hold(report: Report) -> bool:
    """Returns whether nothing is known against the times."""
    return not report.timing_reasons


def interval_words(interval: tuple[float, float]) -> str:
    """Returns the bounds of an interval in words."""
    return f"{interval[0]:.4f} to {interval[1]:.4f}"


def _decided(counts: DatasetCounts) -> list[tuple[str, object]]:
    told = ("documents", "queries", "judged_queries", "judgments")
    fields = [(name, value) for name, value in counts.model_dump().items() if name not in told]
    return [(name, ", ".join(value) or "none" if isinstance(value, tuple) else value) for name, value in fields]


def _figure(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:z.{digits}f}"
