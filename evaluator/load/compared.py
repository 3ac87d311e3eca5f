"""Judges whether a load was answered slower than in an earlier run, each divided by the speed of its machine. Pure.

    sentence := words " (" ratio { "; " ratio } ")"
    words    := "slower by more than " m | "not slower by more than " m | "cannot tell whether slower by more than " m
    ratio    := p " " r ", 95 % interval " low " to " high

A ratio is the new percentile over the old one, over the new median of the calibration stub over the old one
(calibration.py). Sends nothing.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import FiniteFloat

from evaluator.load.calibration import Calibration
from evaluator.load.figures import LoadPercentiles
from evaluator.load.intervals import Interval
from evaluator.load.ratios import SHARES, PercentileName, Slices, percentile_ratios, request_blocks
from evaluator.load.samples import LoadSample, counted_slices
from evaluator.load.slice_pairs import LEAST_PAIRS
from evaluator.machine_conditions import condition_faults
from services.contracts.base import Wire

ComparedOutcome = Literal["slower", "not slower", "cannot tell"]


@dataclass(frozen=True, slots=True)
class LogEstimate:
    """The logarithm of a value, and those of the ends of its 95 % interval."""

    value: float
    low: float
    high: float

    def over(self, other: "LogEstimate") -> "LogEstimate":
        """Returns the ratio of two independent values; their intervals are combined (Zou and Donner 2008, MOVER)."""
        value = self.value - other.value
        return LogEstimate(
            value,
            value - math.hypot(self.value - self.low, other.high - other.value),
            value + math.hypot(self.high - self.value, other.value - other.low),
        )

    @property
    def interval(self) -> Interval:
        """The ends of the interval, no longer as logarithms."""
        return math.exp(self.low), math.exp(self.high)


class CalibratedRatio(Wire):
    """One percentile of the new run over that of the old one, each divided by the calibration of its run."""

    percentile: PercentileName
    ratio: FiniteFloat
    interval: Interval  # 95 %; of the calibrations too
    as_measured: FiniteFloat  # not divided
    outcome: ComparedOutcome


def log_estimate(value: float, interval: Interval) -> LogEstimate:
    """Returns the logarithms of a positive value and its interval."""
    return LogEstimate(math.log(value), *map(math.log, interval))


def machine_time(calibration: Calibration) -> LogEstimate | None:
    """Returns how long the stub takes on the machine of a run; None where a reading is too short for an interval.

    The value is the geometric mean of both readings. The interval holds theirs: between them, the speed was any of it.
    """
    readings = [one.service_ms for one in (calibration.before, calibration.after)]
    values = [one.p50 for one in readings if one.p50]
    intervals = [interval for one in readings if (interval := one.intervals.get("p50")) is not None]
    if len(values) < 2 or len(intervals) < 2:
        return None
    return LogEstimate(
        sum(map(math.log, values)) / 2,
        math.log(min(low for low, _ in intervals)),
        math.log(max(high for _, high in intervals)),
    )


def calibration_faults(calibration: Calibration, margin: float) -> Iterator[str]:
    """Yields a sentence for each reason why the readings do not tell the machine's speed to within the margin."""
    for when, reading in (("before", calibration.before), ("after", calibration.after)):
        for fault in condition_faults(reading.conditions):
            yield f"{when} the load, {fault}"
    if machine_time(calibration) is None:
        yield "the calibration stub gave too few answers"
        return
    before, after = (one.service_ms.p50 or math.nan for one in (calibration.before, calibration.after))
    if max(before, after) > (1 + margin) * min(before, after):
        yield (
            f"the calibration stub took {before:.2f} ms before the load and {after:.2f} ms after it, "
            f"further apart than the margin of {margin:.1%}"
        )


def sampled_ratios(
    old: Sequence[LoadSample], new: Sequence[LoadSample], seed: int
) -> dict[PercentileName, LogEstimate]:
    """Returns the measured ratios of the same planned requests in two runs.

    Slices are drawn where there are enough of them, else blocks of neighbours (ratios.py).
    """
    slices: dict[str, Slices] = {name: counted_slices(run) for name, run in (("old", old), ("new", new))}
    if len(slices["old"]) < LEAST_PAIRS:
        slices = {name: request_blocks([ms for part in parts for ms in part]) for name, parts in slices.items()}
    found = percentile_ratios("", slices, seed)
    return {one.percentile: log_estimate(one.ratio, one.interval) for one in found if one.interval is not None}


def binomial_ratios(old: LoadPercentiles, new: LoadPercentiles) -> dict[PercentileName, LogEstimate]:
    """Returns the measured ratios of percentiles that have an interval in both runs.

    These intervals take requests as independent: where they wait for each other, they are too narrow.
    """
    found = {}
    for name in SHARES:
        times = [(getattr(one, name), one.intervals.get(name)) for one in (old, new)]
        (first, first_interval), (second, second_interval) = times
        if first and second and first_interval and second_interval:
            found[name] = log_estimate(second, second_interval).over(log_estimate(first, first_interval))
    return found


def judge_ratio(name: PercentileName, measured: LogEstimate, machine: LogEstimate, margin: float) -> CalibratedRatio:
    """Judges one percentile. `measured`: new times over old ones; `machine`: the stub's."""
    found = measured.over(machine)
    limit = math.log1p(margin)
    outcome: ComparedOutcome = "cannot tell"
    if found.low > limit:
        outcome = "slower"
    elif found.high < limit:
        outcome = "not slower"
    return CalibratedRatio(
        percentile=name,
        ratio=math.exp(found.value),
        interval=found.interval,
        as_measured=math.exp(measured.value),
        outcome=outcome,
    )


def joint_outcome(ratios: Sequence[CalibratedRatio]) -> ComparedOutcome:
    """Returns `slower` if a percentile is, `not slower` if none can be."""
    outcomes = {one.outcome for one in ratios}
    if "slower" in outcomes:
        return "slower"
    return "not slower" if outcomes == {"not slower"} and len(ratios) == len(SHARES) else "cannot tell"


def compared_sentence(outcome: ComparedOutcome, ratios: Sequence[CalibratedRatio], margin: float) -> str:
    """Returns the sentence of a point that was judged."""
    words = "cannot tell whether slower" if outcome == "cannot tell" else outcome
    said = [f"{one.percentile} {_change(one.ratio)}, 95 % interval {_change_range(one.interval)}" for one in ratios]
    return f"{words} by more than {margin:.1%} ({'; '.join(said)})"


def _change(ratio: float) -> str:
    return f"{100 * (ratio - 1):+z.1f} %"


def _change_range(interval: Interval) -> str:
    return " to ".join(_change(bound) for bound in interval)
