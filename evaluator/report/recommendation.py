"""Recommends a pipeline: the cheapest of those that cannot be told from the best one. Pure.

The rules: only pipelines within the bounds are looked at. Quality decides who contends (`contenders.py`), and so do the
verdicts against the baseline, which stand beside: one that is shown to be worse than another does not contend, and a
baseline that cannot be told from the best does. Without a bound, nothing is decided where all contend: too few queries
are no reason to ship the cheapest. Each rule that excludes errs in 2.5 %. Among the contenders the lowest p95 decides
where the times hold, else the least CPU per query where all have one, else the highest mean. Within a bound, whose
setter has decided what may be spent, the highest mean does.
"""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from evaluator.comparison.contenders import Standing, standings_of
from evaluator.errors import WrongOption
from evaluator.machine.process_costs import MIB
from evaluator.metrics.quality import PerQuery
from evaluator.report.pipeline_report import PipelineReport
from services.contracts.base import Wire

ChosenBy = Literal["p95", "cpu", "quality", "bound"]
_BY: Mapping[ChosenBy, str] = {
    "p95": "it has the lowest p95",
    "cpu": "it takes the least CPU per query (not all have valid times)",
    "quality": "it has the highest mean (not all have valid times or a measured CPU)",
    "bound": "it has the highest mean",
}


_CHEAPEST: Mapping[ChosenBy, str] = {"p95": "has the lowest p95", "cpu": "takes the least CPU per query"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """The most that a pipeline may take, in milliseconds; None: any."""

    p95_ms: float | None = None
    cpu_ms: float | None = None  # per query, of all named processes

    def __str__(self) -> str:
        named = (("p95", self.p95_ms, "ms"), ("CPU", self.cpu_ms, "ms per query"))
        return " and ".join(f"{name} {most:g} {unit}" for name, most, unit in named if most is not None)


NO_BOUNDS = Bounds()


class Recommendation(Wire):
    """What to ship. `contenders`: the pipelines that cannot be told from the best one, in the order of the run."""

    pipeline: str | None  # null: none is within the bounds (no contenders), or the queries cannot tell any apart
    contenders: tuple[str, ...]
    chosen_by: ChosenBy | None  # null: nothing was left to choose
    p95_within_ms: FiniteFloat | None  # the bounds; null: any
    cpu_within_ms: FiniteFloat | None
    text: str


def recommend(
    pipelines: Mapping[str, PipelineReport],
    figures: Mapping[str, PerQuery],
    depth: int,
    seed: int,
    bounds: Bounds = NO_BOUNDS,
) -> Recommendation | None:
    """Returns what to ship of a valid run; None of one pipeline, or where all share no metric. `figures`: by pipeline.

    Raises WrongOption for a bound of what is not known of each pipeline.
    """
    standings = standings_of(figures, depth, seed)
    if len(standings) < 2:
        return None
    allowed = _within(pipelines, bounds)
    if len(allowed) < len(pipelines):
        standings = standings_of({name: figures[name] for name in allowed}, depth, seed)
    verdicts = {name: pipelines[name] for name in allowed}
    worse = _shown_worse(verdicts)
    contending = {
        name: pipelines[name]
        for name, standing in standings.items()
        if name == standing.best
        or (standing.contends and name not in worse)
        or name in _not_told_from(standing.best, verdicts)
    }
    by, pipeline = _chosen(contending, standings, bounds) if contending else (None, None)
    undecided = bounds == NO_BOUNDS and 1 < len(contending) == len(pipelines)
    if pipeline is None or by is None:
        text = f"No pipeline is within {bounds}."
    elif undecided:
        text = _undecided(pipeline, by, standings)
    else:
        text = " ".join(
            [
                _why(pipeline, standings, tuple(contending), by, bounds),
                *_ruled_out(standings, contending),
                _cost(pipelines[pipeline]),
                *_open_question(pipeline, standings, tuple(contending)),
            ]
        )
    return Recommendation(
        pipeline=None if undecided else pipeline,
        contenders=tuple(contending),
        chosen_by=by if len(contending) > 1 and not undecided else None,
        p95_within_ms=bounds.p95_ms,
        cpu_within_ms=bounds.cpu_ms,
        text=text,
    )


def _p95(pipelines: Mapping[str, PipelineReport]) -> dict[str, float | None]:
    return {name: outcome.latency_ms.p95.held_ms for name, outcome in pipelines.items()}


def _cpu(pipelines: Mapping[str, PipelineReport]) -> dict[str, float | None]:
    return {name: outcome.cost.cpu_ms if outcome.cost else None for name, outcome in pipelines.items()}


def _within(pipelines: Mapping[str, PipelineReport], bounds: Bounds) -> tuple[str, ...]:
    allowed = set(pipelines)
    for option, most, figures in (("--p95", bounds.p95_ms, _p95), ("--cpu", bounds.cpu_ms, _cpu)):
        if most is None:
            continue
        if not math.isfinite(most):
            raise WrongOption(f"{option}: {most} is not a number of milliseconds")
        known = figures(pipelines)
        if unknown := [name for name, figure in known.items() if figure is None]:
            why = "times that hold" if option == "--p95" else "its CPU, which `run --processes` measures"
            raise WrongOption(f"{option}: not known of {unknown[0]} in this run; it needs {why}")
        allowed = {name for name in allowed if (figure := known[name]) is not None and figure <= most}
    return tuple(name for name in pipelines if name in allowed)


def _chosen(
    within: Mapping[str, PipelineReport], standings: Mapping[str, Standing], bounds: Bounds
) -> tuple[ChosenBy, str]:
    best = max(within, key=lambda name: standings[name].mean)
    if bounds != NO_BOUNDS:
        return "bound", best
    rules: tuple[tuple[ChosenBy, Mapping[str, float | None]], ...] = (("p95", _p95(within)), ("cpu", _cpu(within)))
    for by, figures in rules:
        known = {name: figure for name, figure in figures.items() if figure is not None}
        if len(known) == len(within):
            return by, min(known, key=lambda name: (known[name], -standings[name].mean))
    return "quality", best


def _why(
    pipeline: str, standings: Mapping[str, Standing], contending: tuple[str, ...], by: ChosenBy, bounds: Bounds
) -> str:
    mine = standings[pipeline]
    rivals = f"those within {bounds}" if bounds != NO_BOUNDS else "the pipelines"
    begin = f"Ship {pipeline}: {mine.metric} {mine.mean:.4f}"
    queries = _counted(mine.queries)
    if len(standings) == 1:
        return f"{begin}, and no other pipeline is within {bounds}."
    if len(contending) == 1:
        return f"{begin}, the best of {rivals} on {queries}."
    others = [f"{name} ({standings[name].mean:.4f})" for name in contending if name != pipeline]
    apart = f"{rivals} apart" if len(contending) == len(standings) else f"it from {_listed(others)}"
    return f"{begin}; {queries} cannot tell {apart}, and of these {len(contending)} {_BY[by]}."


def _undecided(cheapest: str, by: ChosenBy, standings: Mapping[str, Standing]) -> str:
    """Returns that the queries tell no pipeline from another, which are best and cheapest, and how many more would."""
    best = standings[standings[cheapest].best]
    name = best.best
    leads = f"{name} has the highest {best.metric} ({best.mean:.4f})"
    if by != "quality":
        other = " and" if cheapest == name else f", {cheapest} ({standings[cheapest].mean:.4f})"
        leads += f"{other} {_CHEAPEST[by]}"
    rival = cheapest if cheapest != name else min(standings, key=lambda system: standings[system].mean)
    more = (standings[rival].queries_to_tell or 0) - best.queries
    settle = (
        f"About {_counted(more, 'more judged ')} would tell {name} from {rival}, if the difference stays as it is."
        if more > 0
        else "Judge more queries."
    )
    return f"Not decided: {_counted(best.queries)} cannot tell the pipelines apart. {leads}. {settle}"


def _counted(queries: int, kind: str = "") -> str:
    return f"{queries:,} {kind}{'query' if queries == 1 else 'queries'}"


def _not_told_from(best: str, pipelines: Mapping[str, PipelineReport]) -> set[str]:
    """Returns the pipelines that a verdict against the baseline does not tell from the best one."""
    verdicts = [outcome.against_first for outcome in pipelines.values() if outcome.against_first]
    pairs = [{verdict.first, verdict.second} for verdict in verdicts if verdict.outcome not in ("better", "worse")]
    return {name for pair in pairs if best in pair for name in pair if name in pipelines}


def _shown_worse(pipelines: Mapping[str, PipelineReport]) -> set[str]:
    """Returns the pipelines of which a verdict against the baseline shows that another one is better."""
    verdicts = [outcome.against_first for outcome in pipelines.values() if outcome.against_first]
    return {verdict.second for verdict in verdicts if verdict.outcome == "worse" and verdict.first in pipelines} | {
        verdict.first for verdict in verdicts if verdict.outcome == "better"
    }


def _ruled_out(standings: Mapping[str, Standing], contending: Collection[str]) -> tuple[str, ...]:
    worse = [f"{name} ({standing.mean:.4f})" for name, standing in standings.items() if name not in contending]
    return (f"Shown to be worse than another: {_listed(worse)}.",) if worse else ()


def _cost(outcome: PipelineReport) -> str:
    latency, cost = outcome.latency_ms, outcome.cost
    known = [
        *([f"p50 {latency.p50.cell()} ms and p95 {latency.p95.cell()} ms"] if latency.n else []),
        *([f"{cost.cpu_ms:.1f} CPU ms per query"] if cost and cost.cpu_ms is not None else []),
        *([f"{outcome.index_bytes / MIB:.1f} MiB of index"] if outcome.index_bytes is not None else []),
    ]
    return f"Its cost: {', '.join(known)}." if known else "Its cost was not measured."


def _open_question(pipeline: str, standings: Mapping[str, Standing], contending: tuple[str, ...]) -> tuple[str, ...]:
    """Returns what the queries leave open about the recommended pipeline, and how many more would settle it."""
    mine = standings[pipeline]
    others = [name for name in contending if name != pipeline]
    if not others:
        return ()
    if mine.mean < standings[mine.best].mean:
        question, apart = f"Not known: whether {mine.best}, which has the highest mean, is better", [mine]
    else:
        question, apart = (
            f"Not known: whether it is better than {_listed(others)}",
            [standings[name] for name in others],
        )
    more = max((standing.queries_to_tell or 0) for standing in apart) - mine.queries
    if more <= 0:
        return (f"{question}.",)
    judged = _counted(more, "more judged ")
    stay = "difference stays as it is" if len(apart) == 1 else "differences stay as they are"
    return (f"{question}; about {judged} would tell, if the {stay}.",)


def _listed(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
