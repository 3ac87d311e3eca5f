"""Judges which of two stacks answers slower, from slices of the same traffic that took turns. Pure.

    sentence := B " against " A ": " clause { "; " clause } " (intervals: " k " % each, 95 % together)."
    clause   := p " " words " (" low " to " high ")"
      words  := "slower by " r [", beyond the margin of " m] | "faster by " r | "no slower than " m | "cannot tell"

Ratios are B's percentile over A's. All intervals of a sentence hold together with 95 % (Bonferroni). Sends nothing.
"""

import math
from collections.abc import Sequence
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.statistics.slice_pairs import LEAST_PAIRS, SlicePair, log_ratios
from evaluator.runs.latency import MIN_SAMPLES_FOR_P99
from services.contracts.base import Count, Wire

SpeedOutcome = Literal["slower", "faster", "no slower", "cannot tell"]

MARGIN = 0.05
PERCENTILES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
# The least number of values beyond a percentile: as many as p99 has from its least number of samples.
LEAST_BEYOND = MIN_SAMPLES_FOR_P99 * (1 - PERCENTILES["p99"])
ALPHA = 0.05


class SpeedRatio(Wire):
    """One percentile of the second stack over that of the first one."""

    percentile: str
    ratio: FiniteFloat
    interval: tuple[FiniteFloat, FiniteFloat]
    outcome: SpeedOutcome
    beyond: bool  # slower, and the ratio is above 1 + margin


class SpeedVerdict(Wire):
    """How `second` answers against `first`. `slower`: a percentile is slower beyond the margin."""

    first: str
    second: str
    margin: FiniteFloat
    pairs: Count
    ratios: tuple[SpeedRatio, ...]  # empty: there were too few pairs
    slower: bool
    sentence: str

    @property
    def told(self) -> bool:
        """Whether there is a judgment of every percentile."""
        return bool(self.ratios) and all(one.outcome != "cannot tell" for one in self.ratios)


def judge_speed(first: str, second: str, pairs: Sequence[SlicePair], margin: float, seed: int) -> SpeedVerdict:
    """Compares the percentiles for which there are enough samples."""
    requests = sum(len(pair.first_ms) for pair in pairs)
    chosen = [name for name, share in PERCENTILES.items() if requests * (1 - share) >= LEAST_BEYOND]
    if len(pairs) < LEAST_PAIRS or not chosen:
        sentence = (
            f"{second} against {first}: cannot tell ({len(pairs)} pairs of slices, at least {LEAST_PAIRS} are needed)."
        )
        return SpeedVerdict(
            first=first, second=second, margin=margin, pairs=len(pairs), ratios=(), slower=False, sentence=sentence
        )
    shares = [PERCENTILES[name] for name in chosen]
    found = log_ratios(pairs, shares, 1 - ALPHA / len(shares), seed)
    ratios = tuple(_judged(name, *logs, margin) for name, logs in zip(chosen, found, strict=True))
    level = 100 * (1 - ALPHA / len(ratios))
    return SpeedVerdict(
        first=first,
        second=second,
        margin=margin,
        pairs=len(pairs),
        ratios=ratios,
        slower=any(one.beyond for one in ratios),
        sentence=f"{second} against {first}: {'; '.join(_clause(one, margin) for one in ratios)} "
        f"(intervals: {level:.1f} % each, {100 * (1 - ALPHA):g} % together).",
    )


def _judged(name: str, centre: float, half: float, margin: float) -> SpeedRatio:
    ratio, low, high = (math.exp(value) for value in (centre, centre - half, centre + half))
    outcome: SpeedOutcome = "cannot tell"
    if low > 1:
        outcome = "slower"
    elif high < 1:
        outcome = "faster"
    elif high < 1 + margin:
        outcome = "no slower"
    beyond = outcome == "slower" and ratio > 1 + margin
    return SpeedRatio(percentile=name, ratio=ratio, interval=(low, high), outcome=outcome, beyond=beyond)


def _clause(one: SpeedRatio, margin: float) -> str:
    match one.outcome:
        case "slower":
            words = f"slower by {_percent(one.ratio - 1)}"
            words += f", beyond the margin of {_percent(margin)}" if one.beyond else ""
        case "faster":
            words = f"faster by {_percent(1 - one.ratio)}"
        case "no slower":
            words = f"no slower than {_percent(margin)}"
        case "cannot tell":
            words = "cannot tell"
    low, high = (f"{100 * (bound - 1):+z.1f} %" for bound in one.interval)
    return f"{one.percentile} {words} ({low} to {high})"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
