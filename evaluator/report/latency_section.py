"""Shows in a report how long pipelines take and what they cost, as table 3 of the BEIR paper does. Pure."""

from collections.abc import Collection, Iterator

from evaluator.machine.machine_conditions import TAKEN_LIMIT
from evaluator.machine.process_costs import MIB, PipelineCost
from evaluator.pages.cost_tables import cpu_cells, number_cell, process_names, process_rows
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
from evaluator.runs.latency import PairedRatio, Timed

STAGES_CHART = "charts/stages.svg"
STAGE_WORDS = (
    "The gateway reports the stages; `<stage>.<part>` is time that a service reports. Share: of the latency at the "
    "client, over all answers; parallel stages overlap. gateway.wait, total and gap add up to the latency; the gap is "
    "network, HTTP handling and event loops."
)
COSTS = (
    "First: the first warm-up answer; cold only if the services had just started. Index: disk space of the indexes "
    "that a pipeline reads, including the texts and logs of their engines. CPU: mean per query of all named processes, "
    "over a block of queries after the timed ones; background work is included."
)
MEMORY = "Memory: resident set after the last block; for Elasticsearch, the memory that the JVM committed."


def latency_charts(report: Report) -> dict[str, str | None]:
    """Draws where the time went."""
    title = "Where the time goes: shares of the mean latency, one query at a time"
    return {STAGES_CHART: stacked_times_chart(title, _stacked_times(report))}


def latency_blocks(report: Report, charts: Collection[str]) -> Iterator[Block]:
    """Yields the tail, the stages, the slowest answers and the results that backends had cached."""
    outcomes = report.pipelines.items()
    yield Heading("The slowest answers: p99 and maximum")
    yield Table("latency", "Tail of the latency", _latency_rows(report))
    found = report.conditions
    if found is not None and found.foreign is not None and (taken := found.clean_taken) is not None:
        yield Prose(
            f"Disturbed: share of the answers during which other work took more than {TAKEN_LIMIT:.0%} of a core, also "
            f"when repeated. During the others it took {taken:.1%} on average; by the model 1 / (1 - share), that "
            f"lengthens a time by about {taken / (1 - taken):.1%}. This is an estimate, not a bound."
        )
    stage_times = ([name, *row] for name, it in outcomes for row in stage_rows(it.stages_ms, it.gap_ms))
    if stages := filled(Table("stages", "Milliseconds by stage", [["pipeline", *STAGES], *stage_times])):
        yield Heading("Where the time goes")
        if STAGES_CHART in charts:
            yield ChartImage(STAGES_CHART, "Where the time goes")
        pieces = ([bar.name, *row] for bar in _stacked_times(report) for row in piece_rows(bar))
        yield from filled(Table("path", PATH, [["pipeline", *PIECES], *pieces]))
        yield Prose(STAGE_WORDS)
        yield from stages
    answers = ([name, *row] for name, it in outcomes for row in slowest_rows(it.slowest))
    if slowest := filled(Table("slowest", "The slowest 1 % of the answers", [["pipeline", *SLOWEST], *answers])):
        yield Heading("Each of the slowest 1 % of the answers")
        yield Prose("Every service logs the request_id.")
        yield from slowest
    if uses := filled(Table("caches", "Results that backends had cached", _cache_rows(report))):
        yield Heading("Results that backends had cached")
        yield from uses


def cost_blocks(report: Report) -> Iterator[Block]:
    """Yields what queries cost; nothing where neither an index size nor a process is known."""
    outcomes = report.pipelines.values()
    if not any(outcome.cost or outcome.index_bytes is not None for outcome in outcomes):
        return
    yield Heading("Cost: CPU, memory and index")
    yield Prose(COSTS)
    yield Table("costs", "Cost of each pipeline", _cost_rows(report))
    if processes := filled(Table("processes", "Memory of each process", process_rows(_costs(report)))):
        yield Prose(MEMORY)
        yield from processes


def _latency_rows(report: Report) -> list[list[str]]:
    against = f"time against {report.set_against}"
    rows = [["pipeline", "p99 ms", "95 % interval", "max ms", "disturbed", against, "95 % interval", "run file"]]
    for name, outcome in report.pipelines.items():
        latency = outcome.latency_ms
        within = " to ".join(bound.cell() for bound in latency.p99_interval) if latency.p99_interval else "–"
        rows.append(
            [
                name,
                latency.p99.cell(),
                within,
                latency.max.cell(),
                f"{latency.disturbed:.1%}",
                *_ratio_cells(outcome.time_ratio),
                outcome.run_file,
            ]
        )
    return rows


def _ratio_cells(ratio: PairedRatio | None) -> list[str]:
    return ["–", "–"] if ratio is None else [f"{ratio.ratio:.2f}x", " to ".join(f"{at:.2f}" for at in ratio.interval)]


def _stacked_times(report: Report) -> list[StackedTimes]:
    return [StackedTimes("", name, outcome.path_ms, report.times_hold) for name, outcome in report.pipelines.items()]


def _cache_rows(report: Report) -> list[list[str]]:
    rows = [["pipeline", "backend", "hit rate", "hits", "of"]]
    for name, outcome in report.pipelines.items():
        for backend, use in outcome.cached.items():
            rows.append([name, backend, f"{use.rate:z.4f}", str(use.hits), str(use.of)])
    return rows


def _costs(report: Report) -> list[PipelineCost]:
    return [outcome.cost for outcome in report.pipelines.values() if outcome.cost]


def _cost_rows(report: Report) -> list[list[str]]:
    names = process_names(_costs(report))
    rows = [["pipeline", "first ms", "p50 ms", "p95 ms", "index MiB", "CPU ms per query", *names, "queries", "lost"]]
    for pipeline, outcome in report.pipelines.items():
        latency, size = outcome.latency_ms, outcome.index_bytes
        first = outcome.warmup_ms[0] if outcome.warmup_ms else Timed(None, None)
        times = (time.cell() for time in (first, latency.p50, latency.p95))
        index = number_cell(None if size is None else size / MIB)
        rows.append([pipeline, *times, index, *cpu_cells(outcome.cost, names)])
    return rows
