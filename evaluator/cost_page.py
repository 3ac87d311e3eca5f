"""Renders what pipelines cost: latency, index size, CPU and memory, as table 3 of the BEIR paper does. Pure."""

from evaluator.markdown_table import aligned
from evaluator.process_costs import ProcessCost
from evaluator.report import Report

COSTS = (
    "First: the first labelled warm-up answer, cold only where the services were just started. Index: what the indexes "
    "that a pipeline reads take on the disk, with texts and logs that their engines keep there. CPU: of all named "
    "processes, a mean over a block of queries sent after the timed ones, with what they do in the background."
)
MEMORY = "Memory: the resident set after the last block; of Elasticsearch, what the JVM has committed."
MIB = 2**20


def cost_parts(report: Report, mark: str) -> list[str]:
    """Returns the parts of the page: nothing where neither an index size nor a process is known.

    `mark` follows every time of a query: empty where the times hold.
    """
    outcomes = report.pipelines.values()
    if not any(one.cost or one.index_bytes is not None for one in outcomes):
        return []
    parts = ["## Cost", COSTS, aligned(_costs(report, mark))]
    if len(rows := _processes(report)) > 1:
        parts += [MEMORY, aligned(rows)]
    return parts


def _costs(report: Report, mark: str) -> list[list[str]]:
    names = list(dict.fromkeys(name for one in report.pipelines.values() if one.cost for name in one.cost.processes))
    head = ["pipeline", "first ms", "p50 ms", "p95 ms", "index MiB", "CPU ms a query", *names, "queries", "lost"]
    rows = [head]
    for pipeline, outcome in report.pipelines.items():
        cost, latency = outcome.cost, outcome.latency_ms
        size = None if outcome.index_bytes is None else outcome.index_bytes / MIB
        first = outcome.warmup_ms[0] if outcome.warmup_ms else None
        cpu = [cost.processes[name].cpu_ms if cost and name in cost.processes else None for name in names]
        rows.append(
            [pipeline, *(_number(ms) + ("" if ms is None else mark) for ms in (first, latency.p50, latency.p95))]
            + [_number(value) for value in (size, cost.cpu_ms if cost else None, *cpu)]
            + ([str(cost.queries), str(cost.lost)] if cost else ["–", "–"])
        )
    return rows


def _processes(report: Report) -> list[list[str]]:
    last: dict[str, ProcessCost] = {}
    for outcome in report.pipelines.values():
        last |= outcome.cost.processes if outcome.cost else {}
    rows = [["process", "memory MiB", "missing"]]
    for name, cost in last.items():
        memory = None if cost.memory_bytes is None else cost.memory_bytes / MIB
        rows.append([name, _number(memory), cost.reason or ""])
    return rows


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"
