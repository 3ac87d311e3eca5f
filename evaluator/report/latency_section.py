"""Shows the times of the pipelines in a report: tail, stages, slowest answers, cached results. Pure."""

from collections.abc import Collection, Iterator

from evaluator.pages.page_blocks import Block, ChartImage, Heading, Prose, Table, filled
from evaluator.pages.time_breakdown import (
    PATH,
    PIECES,
    SLOWEST,
    STAGES,
    StackedTimes,
    piece_rows,
    slowest_rows,
    stacked_times_chart,
    stage_rows,
)
from evaluator.report.run_report import Report

STAGES_CHART = "charts/stages.svg"
STAGE_WORDS = (
    "As the gateway reports them; `<stage>.<part>` is what its services report of their own time. Share: of the "
    "latency that the client saw, over all answers; stages that run at once overlap. gateway.wait, total and gap add "
    "up to it: the gap is network, HTTP handling and event loops."
)


def latency_charts(report: Report) -> dict[str, str | None]:
    """Draws where the time went."""
    title = "Where the time goes: shares of the mean latency, one query at a time"
    return {STAGES_CHART: stacked_times_chart(title, _stacked_times(report))}


def latency_blocks(report: Report, charts: Collection[str]) -> Iterator[Block]:
    """Yields the tail, the stages, the slowest answers and the results that backends had cached."""
    yield Heading("More of latency")
    yield Table("latency", "Tail of the latency", _latency_rows(report))
    if stages := filled(Table("stages", "Milliseconds by stage", _stage_rows(report))):
        yield Heading("Stages (ms)")
        if STAGES_CHART in charts:
            yield ChartImage(STAGES_CHART, "Where the time goes")
        yield from filled(Table("path", PATH, _path_rows(report)))
        yield Prose(STAGE_WORDS)
        yield from stages
    if slowest := filled(Table("slowest", "The slowest 1 % of the answers", _slowest_rows(report))):
        yield Heading("The slowest 1 % of the answers")
        yield Prose("The log of every service names the request_id.")
        yield from slowest
    if uses := filled(Table("caches", "Results that backends had cached", _cache_rows(report))):
        yield Heading("Caches (results that backends had cached)")
        yield from uses


def _latency_rows(report: Report) -> list[list[str]]:
    rows = [["pipeline", "p99 ms", "95 % interval", "max ms", "drift", "run file"]]
    for name, outcome in report.pipelines.items():
        latency = outcome.latency_ms
        within = " to ".join(bound.cell() for bound in latency.p99_interval) if latency.p99_interval else "–"
        rows.append(
            [
                name,
                latency.p99.cell(),
                within,
                latency.max.cell(),
                "–" if latency.drift is None else f"{latency.drift:z.2f}",
                outcome.run_file,
            ]
        )
    return rows


def _stage_rows(report: Report) -> list[list[str]]:
    outcomes = report.pipelines.items()
    own = ([name, *row] for name, outcome in outcomes for row in stage_rows(outcome.stages_ms, outcome.gap_ms))
    return [["pipeline", *STAGES], *own]


def _path_rows(report: Report) -> list[list[str]]:
    """Returns where the mean latency of each pipeline went, a piece a row."""
    return [["pipeline", *PIECES], *([bar.name, *row] for bar in _stacked_times(report) for row in piece_rows(bar))]


def _stacked_times(report: Report) -> list[StackedTimes]:
    return [StackedTimes("", name, outcome.path_ms, report.times_hold) for name, outcome in report.pipelines.items()]


def _slowest_rows(report: Report) -> list[list[str]]:
    outcomes = report.pipelines.items()
    return [
        ["pipeline", *SLOWEST],
        *([name, *row] for name, outcome in outcomes for row in slowest_rows(outcome.slowest)),
    ]


def _cache_rows(report: Report) -> list[list[str]]:
    rows = [["pipeline", "backend", "hit rate", "hits", "of"]]
    for name, outcome in report.pipelines.items():
        for backend, use in outcome.cached.items():
            rows.append([name, backend, f"{use.rate:z.4f}", str(use.hits), str(use.of)])
    return rows
