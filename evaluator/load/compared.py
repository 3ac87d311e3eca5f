"""Judges whether a load was answered slower than in an earlier run, each divided by the speed of its machine. Pure.

    sentence := words " (" ratio { "; " ratio } ")"
    words    := "slower by more than " m | "not slower by more than " m | "cannot tell whether slower by more than " m
    ratio    := p " " r ", 95 % interval " low " to " high

A ratio is the new percentile over the old one, over the new median of the calibration stub over the old one
(calibration.py). How far the stub moved within a run widens the interval. Sends nothing.
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
from evaluator.machine.machine_conditions import condition_faults
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

    def widened(self, by: float) -> "LogEstimate":
        """Returns the value with both ends of its interval so much further out, for an error that is not random."""
        return LogEstimate(self.value, self.low - by, self.high + by)

    @property
    def interval(self) -> Interval:
        """The ends of the interval, no longer as logarithms."""
        return math.exp(self.low), math.exp(self.high)


@dataclass(frozen=True, slots=True)
class MachineRatio:
    """How many times as long the stub took around the new run as around the old one."""

    stub: LogEstimate  # of the geometric means of the readings
    moved: float  # how far the machine may have been from these means, in both runs together (logarithm)


class CalibratedRatio(Wire):
    """One percentile of the new run over that of the old one, each divided by the calibration of its run."""

    percentile: PercentileName
    ratio: FiniteFloat
    interval: Interval  # 95 %; of the calibrations too, wider by how far they moved
    as_measured: FiniteFloat  # not divided
    outcome: ComparedOutcome


def log_estimate(value: float, interval: Interval) -> LogEstimate:
    """Returns the logarithms of a positive value and its interval."""
    return LogEstimate(math.log(value), *map(math.log, interval))


def machine_ratio(old: Calibration, new: Calibration) -> MachineRatio | None:
    """Returns how many times as long the stub took; None where a reading is too short for an interval."""
    first, second = _readings(old), _readings(new)
    if first is None or second is None:
        return None
    return MachineRatio(_mean(second).over(_mean(first)), (_distance(first) + _distance(second)) / 2)


def _readings(calibration: Calibration) -> tuple[LogEstimate, LogEstimate] | None:
    """Returns the medians of the stub before and after a load; None where one has no interval."""
    before, after = (_median(one.service_ms) for one in (calibration.before, calibration.after))
    return None if before is None or after is None else (before, after)


def _median(times: LoadPercentiles) -> LogEstimate | None:
    interval = times.intervals.get("p50")
    return log_estimate(times.p50, interval) if times.p50 and interval is not None else None


def _mean(readings: tuple[LogEstimate, LogEstimate]) -> LogEstimate:
    """Returns the mean of both, with the means of their ends: an interval wider than independent errors ask for."""
    before, after = readings
    return LogEstimate((before.value + after.value) / 2, (before.low + after.low) / 2, (before.high + after.high) / 2)


def _distance(readings: tuple[LogEstimate, LogEstimate]) -> float:
    """Returns how far the readings are apart. While the load ran, the speed was any of those between them."""
    before, after = readings
    return abs(after.value - before.value)


def calibration_faults(calibration: Calibration) -> Iterator[str]:
    """Yields a sentence for each reason why the readings tell no speed of the machine."""
    for when, reading in (("before", calibration.before), ("after", calibration.after)):
        for fault in condition_faults(reading.conditions):
            yield f"{when} the load, {fault}"
    if _readings(calibration) is None:
        yield "the calibration stub gave too few answers"


def calibration_remarks(which: str, calibration: Calibration, margin: float) -> Iterator[str]:
    """Yields a sentence where the readings are further apart than the margin. `which`: the `old` or the `new` load."""
    readings = _readings(calibration)
    if readings is not None and _distance(readings) > math.log1p(margin):
        before, after = (math.exp(one.value) for one in readings)
        yield (
            f"The calibration stub took {before:.2f} ms before the {which} load and {after:.2f} ms after it: the speed "
            "of the machine changed by more than the margin, which makes the intervals wider."
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


def judge_ratio(name: PercentileName, measured: LogEstimate, machine: MachineRatio, margin: float) -> CalibratedRatio:
    """Judges one percentile. `measured`: new times over old ones."""
    found = measured.over(machine.stub).widened(machine.moved)
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
