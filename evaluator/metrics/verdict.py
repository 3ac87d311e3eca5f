"""Compares systems on the same queries and states the outcome in a sentence with a fixed grammar. Pure.

    sentence := outcome ": " metric figures ". " power "."
    outcome  := B " is better than " A | B " is worse than " A     followed by ", by less than " margin where that holds
              | B " is the same as " A [" within " margin]
              | "This collection cannot tell " B " from " A
    figures  := difference " (" interval ( "; " | ", although " ) "p = " p [" after Holm over " n] ")"
      interval := "95 % interval " low " to " high [", although two one-sided tests keep to " margin " with p = " p ]
                  | "no interval"
    power    := n " queries, with equal values on each"
                | n " queries, although only differences above " m " are found reliably"
              | n " queries; minimum detectable difference" ( " " m [ " (" n " queries would find the one seen)" ]
                                                            | ": " why there is none )

A difference is B's mean minus A's. "although" stands where two figures of a sentence seem to contradict each other:
the interval is a bootstrap, and p is of another test, perhaps of a family. Leaves statistics to `paired_tests`, and
what may be compared to `shared_queries`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from evaluator.metrics.paired_tests import (
    ALPHA,
    above_p,
    differences,
    effect_size,
    equivalence_p,
    holm,
    interval,
    mean,
    minimum_detectable,
    queries_for_margin,
    queries_needed,
    sign_flip_p,
    too_few,
)
from services.contracts.base import Count, Wire

Outcome = Literal["better", "worse", "same", "cannot tell"]

MARGIN = 0.01


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Values of one metric for the same queries in the same order: of the system compared with, and of the other."""

    first: str
    second: str
    first_values: Sequence[float]
    second_values: Sequence[float]


def scored_pair(
    first: str, second: str, first_values: Mapping[str, float | None], second_values: Mapping[str, float | None]
) -> ScoredPair:
    """Returns the pair over the queries that have a value in both, in the order of the first."""
    both = [(first_value, second_values.get(query)) for query, first_value in first_values.items()]
    known = [(value, second_value) for value, second_value in both if value is not None and second_value is not None]
    return ScoredPair(first, second, [value for value, _ in known], [second_value for _, second_value in known])


class PairedComparison(Wire):
    """The difference of `second` from `first` in a metric. Differences are second minus first, unrounded."""

    first: str
    second: str
    metric: str
    queries: Count
    first_mean: FiniteFloat
    second_mean: FiniteFloat
    difference: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat] | None  # 95 %, BCa bootstrap; null for a single query
    p: FiniteFloat  # sign-flip test, two-sided
    p_holm: FiniteFloat  # adjusted for the family
    family: Count  # comparisons that were tested together
    effect_size: FiniteFloat | None  # Cohen's d of pairs; null when all differences are equal
    wins: Count  # queries on which `second` has the higher value
    ties: Count
    losses: Count
    minimum_detectable: FiniteFloat | None  # at 80 % power; null when no query differs or there are too few
    queries_needed: Count | None  # to find the difference seen with 80 % power; null when it is 0
    margin: FiniteFloat
    p_same: FiniteFloat  # two one-sided tests within the margin, adjusted for the family
    outcome: Outcome
    sentence: str


def compare_pairs(
    pairs: Sequence[ScoredPair], metric: str, seed: int, margin: float = MARGIN
) -> tuple[PairedComparison, ...]:
    """Compares each pair; all of them are one family. Every pair has at least one query."""
    per_pair = [differences(pair.first_values, pair.second_values) for pair in pairs]
    ps = [sign_flip_p(values, seed) for values in per_pair]
    adjusted, same = holm(ps), holm([equivalence_p(values, margin) for values in per_pair])
    return tuple(
        _compared(pair, values, metric, seed, margin, (p, p_holm, p_same), len(pairs))
        for pair, values, p, p_holm, p_same in zip(pairs, per_pair, ps, adjusted, same, strict=True)
    )


def _compared(
    pair: ScoredPair,
    values: Sequence[float],
    metric: str,
    seed: int,
    margin: float,
    ps: tuple[float, float, float],
    family: int,
) -> PairedComparison:
    p, p_holm, p_same = ps
    compared = PairedComparison(
        first=pair.first,
        second=pair.second,
        metric=metric,
        queries=len(values),
        first_mean=mean(pair.first_values),
        second_mean=mean(pair.second_values),
        difference=mean(values),
        interval=interval(values, seed),
        p=p,
        p_holm=p_holm,
        family=family,
        effect_size=effect_size(values),
        wins=sum(value > 0 for value in values),
        ties=sum(value == 0 for value in values),
        losses=sum(value < 0 for value in values),
        minimum_detectable=minimum_detectable(values, family),
        queries_needed=queries_needed(values, family),
        margin=margin,
        p_same=p_same,
        outcome=_outcome(values, p_holm, p_same),
        sentence="",
    )
    return compared.model_copy(update={"sentence": sentence(compared)})


def _outcome(values: Sequence[float], p: float, p_same: float) -> Outcome:
    if p < ALPHA:
        return "better" if mean(values) > 0 else "worse"
    return "same" if p_same < ALPHA or not any(values) else "cannot tell"


def sentence(compared: PairedComparison) -> str:
    """Returns the verdict in the grammar of this module."""
    test = f"{_p(compared.p_holm)}{f' after Holm over {compared.family}' if compared.family > 1 else ''}"
    figures = f"{compared.metric} {compared.difference:+z.4f} ({_within(compared)}{test})"
    return f"{_words(compared)}: {figures}. {_power(compared)}."


def _within(compared: PairedComparison) -> str:
    """Returns the interval and what joins it to p."""
    if compared.interval is None:
        return "no interval; "
    low, high = compared.interval
    words = f"95 % interval {low:+z.4f} to {high:+z.4f}"
    if _small(compared) and max(-low, high) > compared.margin:
        keep = f"two one-sided tests keep to {compared.margin:g} with {_p(compared.p_same)}"
        return f"{words}, although {keep}; "
    decided = compared.outcome in ("better", "worse")
    # Of the same within the margin, an interval beside 0 says nothing else.
    odd = compared.outcome != "same" and decided == (low <= 0.0 <= high)
    return f"{words}, although " if odd else f"{words}; "


def _small(compared: PairedComparison) -> bool:
    """Returns whether the sentence puts the difference within the margin."""
    return compared.p_same < ALPHA and compared.outcome != "cannot tell"


def _words(compared: PairedComparison) -> str:
    first, second = compared.first, compared.second
    match compared.outcome:
        case "better" | "worse" as word:
            small = f", by less than {compared.margin:g}" if _small(compared) else ""
            return f"{second} is {word} than {first}{small}"
        case "same":
            equal = compared.ties == compared.queries
            return f"{second} is the same as {first}{'' if equal else f' within {compared.margin:g}'}"
        case "cannot tell":
            return f"This collection cannot tell {second} from {first}"


def _power(compared: PairedComparison) -> str:
    queries = f"{compared.queries:,} {'query' if compared.queries == 1 else 'queries'}"
    if compared.minimum_detectable is None:
        few = too_few(compared.queries, compared.family)
        if compared.ties == compared.queries and not few:
            return f"{queries}, with equal values on each"
        reason = "so few can detect none" if few else "none can be estimated, because every query has the same one"
        return f"{queries}; minimum detectable difference: {reason}"
    if compared.outcome in ("better", "worse") and abs(compared.difference) < compared.minimum_detectable:
        return f"{queries}, although only differences above {compared.minimum_detectable:.4f} are found reliably"
    needed = ""
    if compared.outcome == "cannot tell" and compared.queries_needed is not None:
        needed = f" ({compared.queries_needed:,} queries would find the one seen)"
    return f"{queries}; minimum detectable difference {compared.minimum_detectable:.4f}{needed}"


def _p(value: float) -> str:
    return f"p = {value:.4f}" if value >= 0.00005 else "p < 0.0001"


class NoWorseGate(Wire):
    """Whether it is shown that `second` is not worse than `first` by `margin` or more, all queries of both answered."""

    margin: FiniteFloat
    p: FiniteFloat  # one-sided paired t test; not adjusted, because every gate must pass
    queries_needed: Count | None  # that show it with 80 % power where both are equal; null when no difference varies
    passed: bool
    sentence: str


def no_worse_gate(
    pair: ScoredPair, verdict: PairedComparison, margin: float, losses: Sequence[str] = ()
) -> NoWorseGate:
    """Tests that the second system is not worse by the margin or more. `verdict` is of the same pair.

    `losses` list which answers of either system were lost or degraded: a lost one counts as 0, so that a baseline with
    losses would let any system pass. With one the gate fails, whatever p is.
    """
    values = differences(pair.first_values, pair.second_values)
    p, needed = above_p(values, -margin), queries_for_margin(values, margin)
    words = f"{pair.second} is not worse than {pair.first} by {margin:g} or more in {verdict.metric} ({_p(p)})"
    if losses:
        metric = verdict.metric
        sentence = (
            f"Gate failed: {'; '.join(losses)}; it compares {metric} only where every query of both was answered."
        )
    elif p < ALPHA:
        sentence = f"Gate passed: {words}."
    else:
        sentence = f"Gate failed: not shown that {words}{_why_not_shown(verdict, needed)}."
    return NoWorseGate(margin=margin, p=p, queries_needed=needed, passed=p < ALPHA and not losses, sentence=sentence)


def _why_not_shown(verdict: PairedComparison, needed: int | None) -> str:
    if verdict.outcome == "worse":
        return f": it is worse, by {-verdict.difference:.4f}"
    if needed is None or needed <= verdict.queries:
        return ""
    return f". Between equal systems, {needed:,} queries would show it; these are {verdict.queries:,}"
