"""Renders what the points of a load cost, and how the memory of the processes went, as parts of a page. Pure."""

from collections.abc import Iterator

from evaluator.load.report import LoadReport
from evaluator.load.statistics.memory_trend import BLOCKS
from evaluator.machine.cost_rows import cpu_cells, number_cell, process_names, process_rows
from evaluator.machine.process_costs import MIB
from evaluator.pages.page_blocks import Block, Heading, Prose, Table

COSTS = (
    "CPU milliseconds a request: a mean over all that were sent, warm-up among them, with what the processes do in the "
    "background, which at a low rate is a large part. Memory: the resident set after the last point; of Elasticsearch, "
    "what the JVM has committed."
)
MEMORY = (
    f"First and last reading, and the first of the later half. The slope is that of the later half, over {BLOCKS} "
    "blocks, with a 95 % interval: caches and heaps fill in the earlier one. Every reading: load/memory.jsonl."
)


def cost_blocks(report: LoadReport) -> Iterator[Block]:
    """Yields the costs of the processes and their memory over time; none where no process was named."""
    costs = [point.cost for point in report.points if point.cost is not None]
    if costs:
        yield from (Heading("Cost"), Prose(COSTS), Table("load-processes", "Memory", process_rows(costs)))
    if report.memory:
        yield from (Heading("Memory over time"), Prose(MEMORY), memory_table(report))


def cost_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and CPU milliseconds a request, a row a point; no row without a cost."""
    names = process_names(point.cost for point in report.points if point.cost is not None)
    head = ["pipeline", "rate", "CPU ms a request", *names, "requests", "lost"]
    points = report.points if names else ()
    return [head, *([point.pipeline, point.traffic_in_words, *cpu_cells(point.cost, names)] for point in points)]


def memory_table(report: LoadReport) -> Table:
    """Returns the memory of each process over the load, a row each; none where no process was named."""
    rows = [
        ["process", "first MiB", "middle", "last", "MiB an hour", "from", "to", "readings", "minutes", "missing"],
    ]
    for name, one in report.memory.items():
        levels = (one.first_bytes, one.middle_bytes, one.last_bytes)
        slope = (one.mib_an_hour, *(one.interval or (None, None)))
        rows.append(
            [
                name,
                *(number_cell(None if value is None else value / MIB) for value in levels),
                *map(number_cell, slope),
                str(one.readings),
                number_cell(one.seconds / 60),
                one.reason or "",
            ]
        )
    return Table("load-memory", "Memory of each process over the load", rows)
