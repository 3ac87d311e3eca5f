"""Compares systems on the same queries and states the outcome in a sentence with a fixed grammar. Pure.

    sentence := outcome ": " metric " " difference " (" figures "). " queries "."
    outcome  := B " is better than " A | B " is worse than " A     followed by ", by less than " margin where that holds
              | B " is the same as " A [" within " margin]
              | "This collection cannot tell " B " from " A
    figures  := "95 % interval " low " to " high ", p = " p [", of " n " pairs together"] | "no interval"
    queries  := n " queries" [", too few to show anything"]

A difference is B's mean minus A's. Outcome, interval and p are of one calibration (`calibration.py`), so that none of
them contradicts another. Leaves what may be compared to `shared_queries`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from evaluator.metrics.calibration import Calibrated, calibrate
from evaluator.metrics.paired_differences import differences, mean
from services.contracts.base import Count, Wire

Outcome = Literal["better", "worse", "same", "cannot tell"]

MARGIN = 0.01


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Values of one metric by query, of the same queries: of the system compared with, and of the other."""

    first: str
    second: str
    first_values: Mapping[str, float]
    second_values: Mapping[str, float]

    @property
    def differences(self) -> dict[str, float]:
        """Second minus first by query."""
        values = differences(tuple(self.first_values.values()), tuple(self.second_values.values()))
        return dict(zip(self.first_values, values, strict=True))


def scored_pair(
    first: str, second: str, first_values: Mapping[str, float | None], second_values: Mapping[str, float | None]
) -> ScoredPair:
    """Returns the pair over the queries that have a value in both, in the order of the first."""
    both = {query: (value, second_values.get(query)) for query, value in first_values.items()}
    known = {query: (one, other) for query, (one, other) in both.items() if one is not None and other is not None}
    return ScoredPair(first, second, *({query: values[side] for query, values in known.items()} for side in (0, 1)))


class PairedComparison(Wire):
    """The difference of `second` from `first` in a metric. Differences are second minus first, unrounded."""

    first: str
    second: str
    metric: str
    queries: Count
    first_mean: FiniteFloat
    second_mean: FiniteFloat
    difference: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat] | None  # 95 %, of the family together; null where so few bound nothing
    p: FiniteFloat  # of both directions, adjusted for the family
    family: Count  # pairs that were calibrated together
    wins: Count  # queries on which `second` has the higher value
    ties: Count
    losses: Count
    minimum_detectable: FiniteFloat | None  # at 80 % power; null where differences do not vary, or nothing is bounded
    queries_needed: Count | None  # that show the difference seen with 80 % power; null also where it is 0
    margin: FiniteFloat
    outcome: Outcome
    sentence: str


def compare_pairs(pairs: Sequence[ScoredPair], metric: str, margin: float = MARGIN) -> tuple[PairedComparison, ...]:
    """Compares each pair; all of them are one family. Every pair has at least one query."""
    calibrated = calibrate([pair.differences for pair in pairs])
    return tuple(
        _compared(pair, found, metric, margin, len(pairs)) for pair, found in zip(pairs, calibrated, strict=True)
    )


def _compared(pair: ScoredPair, calibrated: Calibrated, metric: str, margin: float, family: int) -> PairedComparison:
    values = tuple(pair.differences.values())
    compared = PairedComparison(
        first=pair.first,
        second=pair.second,
        metric=metric,
        queries=len(values),
        first_mean=mean(tuple(pair.first_values.values())),
        second_mean=mean(tuple(pair.second_values.values())),
        difference=calibrated.mean,
        interval=calibrated.interval,
        p=calibrated.p,
        family=family,
        wins=sum(value > 0 for value in values),
        ties=sum(value == 0 for value in values),
        losses=sum(value < 0 for value in values),
        minimum_detectable=calibrated.detectable,
        queries_needed=calibrated.needed,
        margin=margin,
        outcome=_outcome(calibrated, margin),
        sentence="",
    )
    return compared.model_copy(update={"sentence": sentence(compared)})


def _outcome(calibrated: Calibrated, margin: float) -> Outcome:
    if calibrated.shown:
        return "better" if calibrated.mean > 0 else "worse"
    return "same" if within(calibrated.interval, margin) else "cannot tell"


def within(interval: tuple[float, float] | None, margin: float) -> bool:
    """Returns whether the difference is shown to be smaller than the margin in both directions."""
    return interval is not None and -margin < interval[0] and interval[1] < margin


def sentence(compared: PairedComparison) -> str:
    """Returns the verdict in the grammar of this module."""
    difference = f"{compared.metric} {compared.difference:+z.4f} ({_figures(compared)})"
    return f"{_words(compared)}: {difference}. {_queries(compared)}."


def _figures(compared: PairedComparison) -> str:
    if compared.interval is None:
        return "no interval"
    low, high = compared.interval
    p = f"p = {compared.p:.4f}" if compared.p >= 0.00005 else "p < 0.0001"
    family = f", of {compared.family} pairs together" if compared.family > 1 else ""
    return f"95 % interval {low:+z.4f} to {high:+z.4f}, {p}{family}"


def _words(compared: PairedComparison) -> str:
    words = outcome_words(
        compared.first, compared.second, compared.outcome, compared.interval, compared.margin, "This collection"
    )
    return words.removesuffix(f" within {compared.margin:g}") if compared.ties == compared.queries else words


def outcome_words(
    first: str, second: str, outcome: Outcome, interval: tuple[float, float] | None, margin: float, judge: str
) -> str:
    """Returns an outcome in words. `interval`: of the difference; `judge`: what cannot tell."""
    match outcome:
        case "better" | "worse" as word:
            small = f", by less than {margin:g}" if within(interval, margin) else ""
            return f"{second} is {word} than {first}{small}"
        case "same":
            return f"{second} is the same as {first} within {margin:g}"
        case "cannot tell":
            return f"{judge} cannot tell {second} from {first}"


def _queries(compared: PairedComparison) -> str:
    queries = f"{compared.queries:,} {'query' if compared.queries == 1 else 'queries'}"
    if compared.interval is None:
        return f"{queries}, too few to show anything"
    return queries


class NoWorseGate(Wire):
    """Whether it is shown that `second` is not worse than `first` by `margin` or more, all queries of both answered."""

    margin: FiniteFloat
    queries_needed: Count | None  # that show it with 80 % power where both are equal; null when no difference varies
    passed: bool
    sentence: str


def no_worse_gate(verdict: PairedComparison, margin: float, losses: Sequence[str] = ()) -> NoWorseGate:
    """Reads from a verdict's interval whether the second system is not worse by the margin or more.

    `losses` list which answers of either system were lost or degraded: a lost one counts as 0, so that a baseline with
    losses would let any system pass. With one the gate fails, whatever the interval is.
    """
    low = verdict.interval[0] if verdict.interval is not None else None
    shown, detectable = low is not None and low > -margin, verdict.minimum_detectable
    needed = math.ceil(verdict.queries * (detectable / margin) ** 2) if detectable is not None else None
    words = f"{verdict.second} is not worse than {verdict.first} by {margin:g} or more in {verdict.metric}"
    if low is not None:
        words += f" (95 % interval from {low:+z.4f})"
    if losses:
        text = f"failed: {'; '.join(losses)}; it compares {verdict.metric} only where every query of both was answered"
    elif shown:
        text = f"passed: {words}"
    else:
        text = f"failed: not shown that {words}{_why_not_shown(verdict, needed)}"
    return NoWorseGate(margin=margin, queries_needed=needed, passed=shown and not losses, sentence=f"Gate {text}.")


def _why_not_shown(verdict: PairedComparison, needed: int | None) -> str:
    if verdict.outcome == "worse":
        return f": it is worse, by {-verdict.difference:.4f}"
    if needed is None or needed <= verdict.queries:
        return ""
    return f". Between equal systems, {needed:,} queries would show it; these are {verdict.queries:,}"
