"""Intervals and an alarm of a running experiment that hold at all looks together, however many. Pure.

Intervals are 95 % asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas 2021, Theorem 2.2),
tightest at a number of units. Before it they are wider, which keeps the first looks honest.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping

from evaluator.metrics.calibration import POWER_QUANTILE
from evaluator.metrics.paired_differences import ALPHA, ROUNDING
from evaluator.metrics.verdict import MARGIN, Outcome, within

FIRST_LOOK = 100  # units, of each arm
RATIO_ALPHA = 0.01
CONCENTRATION = 1_000.0  # units that the prior of the sample ratio weighs: 52:48 is found within some 10,000


class MeanSequence:
    """The mean of values, one a unit, in their order; of an interleaving the units' mean differences of credits."""

    tightest = 1_000  # a preference between rankings shows within some hundred units

    def __init__(self) -> None:
        self.units, self.mean, self._squares = 0, 0.0, 0.0

    def add(self, value: float) -> None:
        """Adds the value of the next unit (Welford 1962)."""
        self.units += 1
        away = value - self.mean
        self.mean += away / self.units
        self._squares += away * (value - self.mean)

    @property
    def spread(self) -> float:
        """The standard deviation of the values."""
        return math.sqrt(self._squares / self.units) if self.units else 0.0

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the mean; None before 100 units, and while all values are equal, which bounds nothing."""
        return _interval(self.mean, self, self.units) if self.units >= FIRST_LOOK else None


class DifferenceSequence:
    """The treated arm's mean value minus the control's, by augmented inverse-probability terms of each unit.

    A unit's term is m1 - m0 + (x - m1) / share where it is treated, and m1 - m0 - (x - m0) / (1 - share) where not; m0
    and m1 are the arms' means before it. The first unit's term is 0, so that an offset of all values changes nothing.
    `units` counts the control's and the treated.
    """

    tightest = 10_000  # from 2,000 to 50,000 units the width is within 11 % of the least possible

    def __init__(self) -> None:
        self.units, self.difference, self._weights = (0, 0), 0.0, 0.0
        self._terms, self._values, self._arms = MeanSequence(), MeanSequence(), (MeanSequence(), MeanSequence())

    def add(self, treated: bool, share: float, value: float) -> None:
        """Adds the next unit. `share`: its probability to be treated rather than in the control, within (0, 1)."""
        start = self._values.mean if self._values.units else value
        control, treatment = (arm.mean if arm.units else start for arm in self._arms)
        away = (value - treatment) / share if treated else (control - value) / (1 - share)
        self._terms.add(treatment - control + away)
        self._arms[treated].add(value)
        self._values.add(value)
        self._weights += 1 / (share * (1 - share))
        self.units, self.difference = (self._arms[0].units, self._arms[1].units), self._terms.mean

    @property
    def spread(self) -> float:
        """The standard deviation of a unit's term, at least that of arms which vary alike."""
        # A small arm that by chance has few of the rare large values varies too little: without this bound 18 % of
        # experiments between equal arms had a winner, at 90:10 and with 2 % of the values 1, the others 0.
        alike = self._values.spread * math.sqrt(self._weights / max(self._values.units, 1))
        return max(self._terms.spread, alike)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of the difference; None before 100 units in each arm, and while all values are equal."""
        return _interval(self.difference, self, self._terms.units) if min(self.units) >= FIRST_LOOK else None


def _interval(mean: float, sequence: MeanSequence | DifferenceSequence, units: int) -> tuple[float, float] | None:
    half = sequence.spread * _half_width(units, sequence.tightest)
    return (mean - half, mean + half) if sequence.spread >= ROUNDING else None


def _half_width(units: int, tightest: int) -> float:
    """Returns half of the width for a spread of 1, with the paper's rho² for the units where it is tightest."""
    mixed = units * (math.log(1 - 2 * math.log(ALPHA)) - 2 * math.log(ALPHA)) / tightest
    return math.sqrt(2 * (mixed + 1) / (units * mixed) * math.log(math.sqrt(mixed + 1) / ALPHA))


def units_needed(sequence: MeanSequence | DifferenceSequence, effect: float) -> int | None:
    """Returns the units, of both arms together, that show an effect (not 0) with 80 % power; None without interval."""
    if sequence.interval is None:
        return None
    seen, tightest = abs(effect) / sequence.spread, sequence.tightest
    above = bisect_left(range(1, 2**62), -seen, key=lambda n: -_half_width(n, tightest) - POWER_QUANTILE / math.sqrt(n))
    return above + 1


def outcome(interval: tuple[float, float] | None, margin: float = MARGIN) -> Outcome:
    """Returns what an interval shows, in the words of `compare`; without one, nothing can be told yet."""
    if interval is not None and (interval[0] > 0 or interval[1] < 0):
        return "better" if interval[0] > 0 else "worse"
    return "same" if within(interval, margin) else "cannot tell"


class SampleRatio:
    """The Bayes factor against the shares that units were assigned by (Lindon and Malek 2022, Dirichlet-multinomial).

    `alarm`: it once reached 1 / 0.01, as it does in at most 1 % of the experiments without a fault.
    """

    def __init__(self) -> None:
        self.alarm, self.bayes_factor = False, 1.0
        self._counts: dict[tuple[tuple[str, float], ...], dict[str, int]] = {}

    def add(self, arm: str, shares: Mapping[str, float]) -> None:
        """Adds a unit: its arm, and the shares by arm at its entry, whose sum is 1. Each set of shares has a factor."""
        counts = self._counts.setdefault(tuple(sorted(shares.items())), dict.fromkeys(shares, 0))
        expected = (CONCENTRATION * shares[arm] + counts[arm]) / (CONCENTRATION + sum(counts.values()))
        self.bayes_factor = min(self.bayes_factor * expected / shares[arm], 1e300)
        counts[arm] += 1
        self.alarm = self.alarm or self.bayes_factor >= 1 / RATIO_ALPHA
