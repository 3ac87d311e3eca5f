"""Renders what the points of a load cost as parts of a page. Pure."""

from collections.abc import Iterator

from evaluator.load.load_report import LoadReport
from evaluator.machine.process_costs import cpu_cells, process_names, process_rows
from evaluator.pages.page_blocks import Block, Heading, Prose, Table

COSTS = (
    "CPU milliseconds a request: a mean over all that were sent, warm-up among them, with what the processes do in the "
    "background, which at a low rate is a large part. Memory: the resident set after the last point; of Elasticsearch, "
    "what the JVM has committed."
)


def cost_blocks(report: LoadReport) -> Iterator[Block]:
    """Yields the costs of the processes and their memory; none where no process was named."""
    costs = [point.cost for point in report.points if point.cost is not None]
    if costs:
        yield from (Heading("Cost"), Prose(COSTS), Table("load-processes", "Memory", process_rows(costs)))


def cost_rows(report: LoadReport) -> list[list[str]]:
    """Returns a header, and CPU milliseconds a request, a row a point; no row without a cost."""
    names = process_names(point.cost for point in report.points if point.cost is not None)
    head = ["pipeline", "rate", "CPU ms a request", *names, "requests", "lost"]
    points = report.points if names else ()
    return [head, *([point.pipeline, point.traffic_in_words, *cpu_cells(point.cost, names)] for point in points)]
