"""Builds the tables of what queries cost processes, in a report and in a load. Pure."""

from collections.abc import Iterable, Sequence

from evaluator.machine.process_costs import MIB, PipelineCost, ProcessCost


def process_names(costs: Iterable[PipelineCost]) -> list[str]:
    """Returns the names of all processes, in the order in which they were given."""
    return list(dict.fromkeys(name for cost in costs for name in cost.processes))


def cpu_cells(cost: PipelineCost | None, names: Sequence[str]) -> list[str]:
    """Returns CPU milliseconds per query, in total and by process, and how many queries were sent and lost."""
    if cost is None:
        return ["–"] * (len(names) + 3)
    each = (cost.processes[name].cpu_ms if name in cost.processes else None for name in names)
    return [number_cell(cost.cpu_ms), *map(number_cell, each), str(cost.queries), str(cost.lost)]


def process_rows(costs: Iterable[PipelineCost]) -> list[list[str]]:
    """Returns a header, and for each process its memory after the last of these costs and what any of them misses."""
    of_process: dict[str, list[ProcessCost]] = {}
    for cost in costs:
        for name, process in cost.processes.items():
            of_process.setdefault(name, []).append(process)
    rows = [["process", "memory MiB", "missing"]]
    for name, measured in of_process.items():
        memory = measured[-1].memory_bytes
        missing = dict.fromkeys(process.reason for process in measured if process.reason)
        rows.append([name, number_cell(None if memory is None else memory / MIB), "; ".join(missing)])
    return rows


def number_cell(value: float | None) -> str:
    """Returns a number with one decimal, or a dash."""
    return "–" if value is None else f"{value:z.1f}"
