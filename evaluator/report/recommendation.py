"""Recommends a pipeline: the cheapest of those that cannot be told from the best one. Pure.

The rules: quality decides who contends (`contenders.py`). Among the contenders the lowest p95 decides where the times
hold, else the least CPU a query where it is known of all, else the highest mean.
"""

from collections.abc import Mapping
from typing import Literal

from evaluator.comparison.arm_statistics import Standing
from evaluator.machine.process_costs import MIB
from evaluator.report.pipeline_report import PipelineReport
from services.contracts.base import Wire

ChosenBy = Literal["p95", "cpu", "quality"]
_BY: Mapping[ChosenBy, str] = {
    "p95": "it has the lowest p95",
    "cpu": "it takes the least CPU a query (the times do not hold, so they decide nothing)",
    "quality": "it has the highest mean (neither times that hold nor CPU are known)",
}


class Recommendation(Wire):
    """What to ship. `contenders`: the pipelines that cannot be told from the best one, in the order of the run."""

    pipeline: str
    contenders: tuple[str, ...]
    chosen_by: ChosenBy | None  # null: nothing was left to choose
    text: str


def recommend(pipelines: Mapping[str, PipelineReport]) -> Recommendation | None:
    """Returns what to ship of a valid run; None where fewer than two pipelines share a metric."""
    standings = {name: outcome.standing for name, outcome in pipelines.items() if outcome.standing is not None}
    if len(standings) < 2:
        return None
    within = {name: pipelines[name] for name, standing in standings.items() if standing.contends}
    by, pipeline = _cheapest(within, standings)
    return Recommendation(
        pipeline=pipeline,
        contenders=tuple(within),
        chosen_by=None if len(within) == 1 else by,
        text=" ".join(
            [
                *_why(pipeline, standings, tuple(within), by),
                _cost(pipelines[pipeline]),
                *_open_question(pipeline, standings[pipeline]),
            ]
        ),
    )


def _cheapest(within: Mapping[str, PipelineReport], standings: Mapping[str, Standing]) -> tuple[ChosenBy, str]:
    times = {name: outcome.latency_ms.p95.held_ms for name, outcome in within.items()}
    cpu = {name: outcome.cost.cpu_ms if outcome.cost else None for name, outcome in within.items()}
    by_rule: tuple[tuple[ChosenBy, Mapping[str, float | None]], ...] = (("p95", times), ("cpu", cpu))
    for by, figures in by_rule:
        known = {name: figure for name, figure in figures.items() if figure is not None}
        if len(known) == len(within):
            return by, min(known, key=lambda name: (known[name], -standings[name].mean))
    return "quality", max(within, key=lambda name: standings[name].mean)


def _why(pipeline: str, standings: Mapping[str, Standing], within: tuple[str, ...], by: ChosenBy) -> tuple[str, ...]:
    mine = standings[pipeline]
    figure, questions = (
        f"{mine.metric} {mine.mean:.4f}",
        f"{mine.queries:,} {_plural(mine.queries, 'query', 'queries')}",
    )
    if len(within) == 1:
        return (f"Ship {pipeline}: {figure}, above every other pipeline on {questions}.",)
    others = _listed([f"{name} ({standings[name].mean:.4f})" for name in within if name != pipeline])
    if len(within) == len(standings):
        told = f"{questions} cannot tell the pipelines apart"
    else:
        told = f"{questions} cannot tell it from {others}"
    return (f"Ship {pipeline}: {figure}; {told}, and of these {len(within)} {_BY[by]}.",)


def _cost(outcome: PipelineReport) -> str:
    latency, cost = outcome.latency_ms, outcome.cost
    known = [
        *([f"p50 {latency.p50.cell()} ms and p95 {latency.p95.cell()} ms"] if latency.n else []),
        *([f"{cost.cpu_ms:.1f} CPU ms a query"] if cost and cost.cpu_ms is not None else []),
        *([f"{outcome.index_bytes / MIB:.1f} MiB of index"] if outcome.index_bytes is not None else []),
    ]
    return f"Its cost: {_listed(known)}." if known else "Its cost was not measured."


def _open_question(pipeline: str, standing: Standing) -> tuple[str, ...]:
    if standing.best == pipeline:
        return ()
    if standing.queries_to_tell is None or standing.queries_to_tell <= standing.queries:
        return (f"Not known: whether {standing.best}, which has the highest mean, is better.",)
    more = standing.queries_to_tell - standing.queries
    return (
        f"Not known: whether {standing.best}, which has the highest mean, is better; about {more:,} more judged "
        f"{_plural(more, 'query', 'queries')} would tell, if the difference stays as it is.",
    )


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _plural(count: int, one: str, many: str) -> str:
    return one if count == 1 else many
