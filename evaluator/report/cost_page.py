"""Tabulates what pipelines cost: latency, index size, CPU and memory, as table 3 of the BEIR paper does. Pure."""

from evaluator.machine.cost_rows import cpu_cells, number_cell, process_names, process_rows
from evaluator.machine.process_costs import MIB
from evaluator.pages.page_blocks import Block, Heading, Prose, Table
from evaluator.report.report import Report
from evaluator.runs.latency import Timed

COSTS = (
    "First: the first labelled warm-up answer, cold only where the services were just started. Index: what the indexes "
    "that a pipeline reads take on the disk, with texts and logs that their engines keep there. CPU: of all named "
    "processes, a mean over a block of queries sent after the timed ones, with what they do in the background."
)
MEMORY = "Memory: the resident set after the last block; of Elasticsearch, what the JVM has committed."


def cost_blocks(report: Report, *, valid: bool) -> list[Block]:
    """Returns the section of costs: nothing where neither an index size nor a process is known.

    `valid`: whether the times of queries hold.
    """
    outcomes = report.pipelines.values()
    if not any(one.cost or one.index_bytes is not None for one in outcomes):
        return []
    blocks: list[Block] = [
        Heading("Cost"),
        Prose(COSTS),
        Table("costs", "Cost of each pipeline", _costs(report, valid=valid)),
    ]
    if len(rows := process_rows([one.cost for one in outcomes if one.cost])) > 1:
        blocks += [Prose(MEMORY), Table("processes", "Memory of each process", rows)]
    return blocks


def _costs(report: Report, *, valid: bool) -> list[list[str]]:
    names = process_names(one.cost for one in report.pipelines.values() if one.cost)
    head = ["pipeline", "first ms", "p50 ms", "p95 ms", "index MiB", "CPU ms a query", *names, "queries", "lost"]
    rows = [head]
    for pipeline, outcome in report.pipelines.items():
        cost, latency = outcome.cost, outcome.latency_ms
        size = None if outcome.index_bytes is None else outcome.index_bytes / MIB
        first = outcome.warmup_ms[0] if outcome.warmup_ms else None
        rows.append(
            [
                pipeline,
                *(Timed(ms, valid).cell() for ms in (first, latency.p50, latency.p95)),
                number_cell(size),
                *cpu_cells(cost, names),
            ]
        )
    return rows
