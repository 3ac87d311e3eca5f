"""Decides online experiments: sample ratio first, then each arm against the first one, in the words of `compare`.

    sentence := outcome ": " metric " " difference " (" figures "). " units " units" [", fewer than 100 in an arm"] "."
    outcome  := as in `evaluator.metrics.verdict`; "This experiment cannot tell " B " from " A " yet"
    figures  := "95 % interval " low " to " high " at every look" | "no interval yet"

May be read every day: intervals and alarm hold at all looks together.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime

from pydantic import FiniteFloat

from evaluator.metrics.paired_differences import mean
from evaluator.metrics.sequential import (
    FIRST_LOOK,
    DifferenceSequence,
    MeanSequence,
    SampleRatio,
    outcome,
    units_needed,
)
from evaluator.metrics.verdict import MARGIN, Outcome, outcome_words
from evaluator.online.journal import ExperimentJournal, Search, read_journals
from evaluator.online.unit_values import ABANDONMENT, WINDOW_S, UnitValues, shown_metrics, unit_values
from evaluator.runs.latency import percentile
from services.contracts.base import Count, Wire
from services.contracts.online import Mode

EFFECT = 0.02
DAY_S = 86_400.0
PACE_DAYS = 7


class ArmVerdict(Wire):
    """An arm against the first one in the deciding metric. `needed`: units that show the effect; `days` until then."""

    arm: str
    outcome: Outcome
    sentence: str
    needed: Count | None  # null: too few units to say
    days: FiniteFloat | None  # null: none came of late


class ArmMetric(Wire):
    """The mean of a metric over an arm's units, and how much it differs from the first arm's; null where unknown.

    Of an interleaving, the mean of the credits is the difference.
    """

    metric: str
    arm: str
    units: Count  # whose 24 hours are over
    mean: FiniteFloat | None
    difference: FiniteFloat | None
    interval: tuple[FiniteFloat, FiniteFloat] | None


class Guardrails(Wire):
    """What the searches of an arm's units cost, the newest included. `arm` is null in an interleaving."""

    arm: str | None
    searches: Count
    p95_ms: FiniteFloat
    errors: FiniteFloat  # share, 0 to 1
    degraded: FiniteFloat


class OnlineReport(Wire):
    """An experiment as of a time. `metric` decides. After an `alarm` of the sample ratio there are no verdicts."""

    experiment: str
    salt: str
    mode: Mode
    metric: str
    control: str
    effect: FiniteFloat
    began: datetime
    now: datetime
    units: Count
    open: Count  # units whose 24 hours are not over
    alarm: bool
    ratio: str  # a sentence on it; empty of an interleaving, in which every unit has both arms
    verdicts: tuple[ArmVerdict, ...]
    metrics: tuple[ArmMetric, ...]
    guardrails: tuple[Guardrails, ...]
    left_out: dict[str, Count]  # by what was left out or ignored


class _Arm:
    """An arm against the first one: a sequence by metric."""

    def __init__(self, arm: str, control: str, metrics: Sequence[str], mode: Mode) -> None:
        self.arm, self.control = arm, control
        self.sequences: dict[str, DifferenceSequence | MeanSequence] = {
            metric: DifferenceSequence() if mode == "split" else MeanSequence() for metric in metrics
        }

    def add(self, unit: UnitValues) -> None:
        """Adds a unit, if it is of one of the two arms and could have been of both."""
        chances = [unit.shares.get(arm, 0.0) for arm in (self.control, self.arm)]
        if unit.values is not None and unit.arm in (self.control, self.arm, None) and all(chances):
            for metric, sequence in self.sequences.items():
                if isinstance(sequence, MeanSequence):
                    sequence.add(unit.values[metric])
                else:
                    sequence.add(unit.arm == self.arm, chances[1] / sum(chances), unit.values[metric])

    def verdict(self, metric: str, units: Sequence[UnitValues], now: float, effect: float) -> ArmVerdict:
        """Returns the verdict. `units`: all, by their coming."""
        sequence = self.sequences[metric]
        interval = sequence.interval
        known = (sequence.units,) if isinstance(sequence, MeanSequence) else sequence.units
        gain = interval if interval is None or metric != ABANDONMENT else (-interval[1], -interval[0])
        told = outcome(gain)
        words = outcome_words(self.control, self.arm, told, interval, MARGIN, "This experiment")
        yet = " yet" if told == "cannot tell" else ""
        figures = "no interval yet" if interval is None else f"95 % interval {interval_text(interval)} at every look"
        few = f", fewer than {FIRST_LOOK} in an arm" if min(known) < FIRST_LOOK else ""
        needed, days = units_needed(sequence, effect), None
        if needed is not None:
            came = [unit.at for unit in units if unit.arm in (self.control, self.arm, None)]
            since = max(came[0], now - PACE_DAYS * DAY_S)
            pace = sum(at >= since for at in came) / (now - since)
            days = max(0, needed - sum(known)) / pace / DAY_S if pace else None
        return ArmVerdict(
            arm=self.arm,
            outcome=told,
            sentence=f"{words}{yet}: {metric} {_difference(sequence):+z.4f} ({figures}). {sum(known):,} units{few}.",
            needed=needed,
            days=days,
        )


def online_reports(
    sources: Sequence[str], now: datetime, experiment: str | None = None, effect: float = EFFECT
) -> list[OnlineReport]:
    """Decides one or all experiments of these journals as of a time. `effect`: in the metric's unit.

    Raises EvaluationError.
    """
    return [_report(journal, now, effect) for journal in read_journals(sources, now, experiment)]


def _report(journal: ExperimentJournal, now: datetime, effect: float) -> OnlineReport:
    shown, metrics, time = journal.shown, shown_metrics(journal), now.timestamp()
    control, others = shown.control, [arm for arm in shown.shares if arm != shown.control]
    arms = [_Arm(arm, control, metrics, shown.mode) for arm in others]
    units = list(unit_values(journal, metrics, time))
    for unit in units:
        for arm in arms:
            arm.add(unit)
    searches = [search for of_unit in journal.units.values() for search in of_unit]
    alarm, ratio = _sample_ratio(units) if shown.mode == "split" else (False, "")
    sequences = {} if alarm else {arm.arm: arm.sequences for arm in arms}
    lost = {
        "units that met two arms within 24 hours": sum(unit.moved for unit in units),
        "searches that one arm alone answered": sum(search.failed for search in searches if search.arm is None),
        "searches under older salts, modes or interleaved arms": journal.others,
        "searches with the X-Request-Id of an earlier one": journal.same_id,
        "events of hits that were not shown": journal.not_shown,
        "torn lines of the journals": journal.torn,
    }
    return OnlineReport(
        experiment=shown.experiment,
        salt=shown.salt,
        mode=shown.mode,
        metric=metrics[0],
        control=control,
        effect=effect,
        began=datetime.fromtimestamp(units[0].at, UTC),
        now=now,
        units=len(units),
        open=sum(unit.at + WINDOW_S > time for unit in units),
        alarm=alarm,
        ratio=ratio,
        verdicts=tuple(arm.verdict(metrics[0], units, time, effect) for arm in arms if not alarm),
        metrics=tuple(
            _arm_metric(metric, arm, units, sequences.get(arm, {}).get(metric))
            for metric in metrics
            for arm in ((control, *others) if shown.mode == "split" else others)
        ),
        guardrails=_guardrails(searches),
        left_out={what: count for what, count in lost.items() if count},
    )


def interval_text(interval: tuple[float, float]) -> str:
    """Returns an interval as sentences and tables have it."""
    return f"{interval[0]:+z.4f} to {interval[1]:+z.4f}"


def _difference(sequence: DifferenceSequence | MeanSequence) -> float:
    return sequence.mean if isinstance(sequence, MeanSequence) else sequence.difference


def _sample_ratio(units: Sequence[UnitValues]) -> tuple[bool, str]:
    ratio, came, expected = SampleRatio(), Counter[str](), dict[str, float]()
    for unit in units:
        if unit.arm is not None:
            ratio.add(unit.arm, unit.shares)
            came[unit.arm] += 1
        for other, share in unit.shares.items():
            expected[other] = expected.get(other, 0.0) + share
    counts = ", ".join(
        f"{arm} has {came[arm]:,} units ({count:,.0f} expected)" for arm, count in sorted(expected.items())
    )
    sentence = f"{counts} (Bayes factor {ratio.bayes_factor:.3g} now; 100 at any time is an alarm)."
    if not ratio.alarm:
        return False, f"The sample ratio is in order: {sentence}"
    wrong = "No verdict: an arm loses units, or gets others'. Find out where before you believe any figure."
    return True, f"The sample ratio is wrong: {sentence} {wrong}"


def _arm_metric(
    metric: str, arm: str, units: Sequence[UnitValues], sequence: DifferenceSequence | MeanSequence | None
) -> ArmMetric:
    values = [unit.values[metric] for unit in units if unit.values is not None and unit.arm in (arm, None)]
    return ArmMetric(
        metric=metric,
        arm=arm,
        units=len(values),
        mean=mean(values) if values else None,
        difference=None if sequence is None or not values else _difference(sequence),
        interval=None if sequence is None else sequence.interval,
    )


def _guardrails(searches: Sequence[Search]) -> tuple[Guardrails, ...]:
    by_arm: dict[str | None, list[Search]] = {}
    for search in sorted(searches, key=lambda search: search.arm or ""):
        by_arm.setdefault(search.arm, []).append(search)
    return tuple(
        Guardrails(
            arm=arm,
            searches=len(own),
            p95_ms=percentile(sorted(search.ms for search in own), 0.95),
            errors=sum(search.error for search in own) / len(own),
            degraded=sum(search.degraded for search in own) / len(own),
        )
        for arm, own in by_arm.items()
    )
