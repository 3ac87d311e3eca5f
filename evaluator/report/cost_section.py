"""Shows in a report what pipelines cost: latency, index, CPU and memory, as table 3 of the BEIR paper does. Pure."""

from collections.abc import Iterator

from evaluator.machine.cost_rows import cpu_cells, number_cell, process_names, process_rows
from evaluator.machine.process_costs import MIB, PipelineCost
from evaluator.pages.page_blocks import Block, Heading, Prose, Table, filled
from evaluator.report.run_report import Report
from evaluator.runs.latency import Timed

COSTS = (
    "First: the first labelled warm-up answer, cold only where the services were just started. Index: what the indexes "
    "that a pipeline reads take on the disk, with texts and logs that their engines keep there. CPU: of all named "
    "processes, a mean over a block of queries sent after the timed ones, with what they do in the background."
)
MEMORY = "Memory: the resident set after the last block; of Elasticsearch, what the JVM has committed."


def cost_blocks(report: Report) -> Iterator[Block]:
    """Yields what queries cost; nothing where neither an index size nor a process is known."""
    outcomes = report.pipelines.values()
    if not any(outcome.cost or outcome.index_bytes is not None for outcome in outcomes):
        return
    yield Heading("Cost")
    yield Prose(COSTS)
    yield Table("costs", "Cost of each pipeline", _cost_rows(report))
    if processes := filled(Table("processes", "Memory of each process", process_rows(_costs(report)))):
        yield Prose(MEMORY)
        yield from processes


def _costs(report: Report) -> list[PipelineCost]:
    return [outcome.cost for outcome in report.pipelines.values() if outcome.cost]


def _cost_rows(report: Report) -> list[list[str]]:
    names = process_names(_costs(report))
    rows = [["pipeline", "first ms", "p50 ms", "p95 ms", "index MiB", "CPU ms a query", *names, "queries", "lost"]]
    for pipeline, outcome in report.pipelines.items():
        latency, size = outcome.latency_ms, outcome.index_bytes
        first = outcome.warmup_ms[0] if outcome.warmup_ms else Timed(None, None)
        times = (time.cell() for time in (first, latency.p50, latency.p95))
        index = number_cell(None if size is None else size / MIB)
        rows.append([pipeline, *times, index, *cpu_cells(outcome.cost, names)])
    return rows
