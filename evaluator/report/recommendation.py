"""Recommends a pipeline by a stated preference, from the calibration of all pairs of a run. Pure.

A contender is a pipeline that no other one is shown to be better than; the one with the highest mean always is. By
quality the highest mean is shipped, by a bound of p95 the highest mean within it, by CPU or index the contender that
takes least. Every figure of a difference is of the run's own calibration, as the verdicts beside it.
"""

from collections.abc import Callable, Mapping, Sequence

from evaluator.experiments.preference import Preference
from evaluator.machine.process_costs import MIB
from evaluator.metrics.verdict import PairedComparison
from evaluator.report.pipeline_report import PipelineReport
from evaluator.report.ranked_run import RunFamily
from evaluator.runs.latency import Timed
from services.contracts.base import Wire


class Recommendation(Wire):
    """What to ship."""

    pipeline: str | None  # null: none keeps the bound
    prefer: str = "quality"  # as `--prefer` reads it
    contenders: tuple[str, ...]  # that no other one is shown to be better than, in the order of the run
    runner_up: str | None = None  # the highest mean of the others; null: there is none within the bound
    text: str


def recommend(
    pipelines: Mapping[str, PipelineReport], family: RunFamily | None, prefer: Preference
) -> Recommendation | None:
    """Returns what to ship of a valid run; None of one pipeline, or where they share no metric.

    Names no pipeline where the preference is by a figure that is not known of one that it could choose.
    """
    if family is None:
        return None
    means = {name: outcome.quality[family.metric] or 0.0 for name, outcome in pipelines.items()}
    allowed = tuple(pipelines)
    if prefer.by == "p95":
        times = {name: _decided_ms(outcome.latency_ms.p95, prefer.p95_ms) for name, outcome in pipelines.items()}
        allowed = tuple(name for name, time in times.items() if time is not None and time <= prefer.p95_ms)
        best = max((means[name] for name in allowed), default=-1.0)
        if unknown := [name for name, time in times.items() if time is None and means[name] > best]:
            return _nothing(prefer, f"It needs the p95 of {unknown[0]}, which other work left open: measure again.")
    contenders = tuple(name for name in allowed if not any(family.shown_better(other, name) for other in allowed))
    ranked = sorted(allowed, key=lambda name: -means[name])
    if not ranked:
        return _nothing(prefer, "No pipeline keeps that bound.")
    chosen = ranked[0]
    if prefer.by in ("cpu", "index"):
        figure, needs = _COSTS[prefer.by]
        costs = {name: cost for name in contenders if (cost := figure(pipelines[name])) is not None}
        if unknown := [name for name in contenders if name not in costs]:
            return _nothing(prefer, f"It needs the {prefer.by} of {unknown[0]}: {needs}.")
        chosen = min(contenders, key=lambda name: (costs[name], -means[name]))
    runner_up = next((name for name in ranked if name != chosen), None)
    label = family.pairs[0].metric
    sentences = [f"Ship {chosen}: {label} {means[chosen]:.4f}{_reason(prefer, len(contenders))}."]
    if runner_up is not None:
        sentences.append(_runner_up(pipelines, chosen, runner_up, family))
    if others := [name for name in contenders if name not in (chosen, runner_up)]:
        sentences.append(f"Nor is any shown to be better than {_listed(others)}.")
    sentences.append(f"The cost of {chosen}{_cost(pipelines[chosen])}")
    return Recommendation(
        pipeline=chosen, prefer=str(prefer), contenders=contenders, runner_up=runner_up, text=" ".join(sentences)
    )


def _nothing(prefer: Preference, why: str) -> Recommendation:
    text = f"Nothing is recommended by {prefer}. {why}"
    return Recommendation(pipeline=None, prefer=str(prefer), contenders=(), text=text)


def _cpu_ms(outcome: PipelineReport) -> float | None:
    return outcome.cost.cpu_ms if outcome.cost else None


def _index_bytes(outcome: PipelineReport) -> float | None:
    return outcome.index_bytes


def _decided_ms(time: Timed, bound_ms: float) -> float | None:
    """Returns a time that is surely on one side of a bound; None where other work leaves that open."""
    least_ms, most_ms = time.least_ms, time.unchecked_ms
    if time.holds or least_ms is None or most_ms is None:
        return time.held_ms
    return most_ms if most_ms <= bound_ms else least_ms if least_ms > bound_ms else None


Figure = Callable[[PipelineReport], float | None]
_COSTS: Mapping[str, tuple[Figure, str]] = {
    "cpu": (_cpu_ms, "`run --processes` measures it"),
    "index": (_index_bytes, "its engine does not report the bytes"),
}
_LEAST = {"cpu": "CPU per query", "index": "index"}


def _reason(prefer: Preference, contenders: int) -> str:
    if prefer.by == "p95":
        return f", the best with a p95 of at most {prefer.p95_ms:g} ms"
    if prefer.by == "quality" or contenders == 1:
        return ""
    return f", the least {_LEAST[prefer.by]} of the {contenders} that nothing is shown to be better than"


def _runner_up(pipelines: Mapping[str, PipelineReport], chosen: str, runner_up: str, family: RunFamily) -> str:
    """Returns how far the runner-up is from the pipeline shipped, how sure that is, and what it costs instead."""
    pair = family.between(chosen, runner_up)
    sign = 1 if pair.first == chosen else -1
    difference = sign * pair.difference
    word, facing = ("higher", 1) if difference > 0 else ("lower", -1)
    words = f"{abs(difference):.4f} {word}" if difference else "the same mean"
    if pair.interval is not None:
        low, high = sorted(facing * sign * bound for bound in pair.interval)
        together = f", of {pair.family} pairs together" if pair.family > 1 else ""
        words += f" (95 % interval {low:z.4f} to {high:z.4f}{together})"
    if pair.outcome not in ("better", "worse") and pair.ties < pair.queries:
        words += f", which {pair.queries:,} queries do not show{_missing(pair, family.unused)}"
    ratios = [
        f"{_ratio(mine, theirs)} {what}"
        for figure, what in ((_cpu_ms, "CPU"), (_index_bytes, "index"))
        if (mine := figure(pipelines[chosen])) and (theirs := figure(pipelines[runner_up])) is not None
    ]
    return f"Runner-up {runner_up}: {words}{f', at {_listed(ratios)}' if ratios else ''}."


def _missing(pair: PairedComparison, unused: int | None) -> str:
    if unused is not None:
        return f" (run all {unused:,})"
    return "" if pair.queries_needed is None else f" (about {pair.queries_needed - pair.queries:,} more would)"


def _ratio(mine: float, theirs: float) -> str:
    """Returns in words which part of my figure theirs is."""
    ratio = theirs / mine
    if 0.95 <= ratio <= 1.05:
        return "the same"
    if ratio > 1:
        return f"{ratio:.1f} times the"
    parts = round(1 / ratio) if ratio else 0
    ending = "th" if parts % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(parts % 10, "th")
    named = {0: "none", 1: f"{100 * ratio:.0f} %", 2: "half", 3: "a third", 4: "a quarter"}
    return f"{named.get(parts, f'a {parts:,}{ending}')} of the"


def _cost(outcome: PipelineReport) -> str:
    latency, cpu_ms = outcome.latency_ms, _cpu_ms(outcome)
    timed = latency.p50.holds or cpu_ms is None
    known = [
        # Where other work leaves the times open, the CPU decides.
        *([f"p50 {latency.p50.cell()} ms and p95 {latency.p95.cell()} ms"] if latency.n and timed else []),
        *([f"{cpu_ms:.1f} CPU ms per query"] if cpu_ms is not None else []),
        *([f"{outcome.index_bytes / MIB:.1f} MiB of index"] if outcome.index_bytes is not None else []),
    ]
    return f": {', '.join(known)}." if known else " was not measured."


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
